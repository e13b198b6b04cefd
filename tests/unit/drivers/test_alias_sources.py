"""The paths of an alias and of the tree that stand for each other, in both directions."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.alias.sources import AliasRedirects

ONE = AliasRedirects("/a/b\nb:/c")
MANY = AliasRedirects("one:/a/b\ntwo:/a/b/deep\none:/c\nall:/")


@pytest.mark.parametrize(
    ("redirects", "target", "expected"),
    [
        (ONE, "/a/b", {"/"}),
        (ONE, "/a/b/x/y", {"/x/y"}),
        (ONE, "/c/x", {"/x"}),
        (ONE, "/a/bc", set()),
        (ONE, "/a", set()),
        (MANY, "/a/b", {"/one", "/all/a/b"}),
        (MANY, "/a/b/deep/x", {"/one/deep/x", "/two/x", "/all/a/b/deep/x"}),
        (MANY, "/", {"/all"}),
        (AliasRedirects("/a/../.."), "/a", set()),
    ],
)
def test_a_folder_of_the_tree_is_shown_wherever_its_sources_say(
    redirects: AliasRedirects, target: str, expected: set[str]
) -> None:
    sources = redirects.find_sources(TreePath(target))
    assert set(sources) == expected
    assert all(target in redirects.find_targets(source) for source in sources)


def test_a_folder_above_sources_is_shown_where_they_are() -> None:
    assert set(ONE.find_sources(TreePath("/a"), below=True)) == {"/"}
    assert set(MANY.find_sources(TreePath("/a"), below=True)) >= {"/one", "/two"}
    assert set(ONE.find_sources(TreePath("/x"), below=True)) == set()
