"""The paths of an alias and of the tree that stand for each other, in both directions."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.alias.options import AliasRedirects

SINGLE_ALIAS = AliasRedirects("/a/b\nb:/c")
NAMED_ALIASES = AliasRedirects("one:/a/b\ntwo:/a/b/deep\none:/c\nall:/")


@pytest.mark.parametrize(
    ("redirects", "target", "expected"),
    [
        (SINGLE_ALIAS, "/a/b", {"/"}),
        (SINGLE_ALIAS, "/a/b/x/y", {"/x/y"}),
        (SINGLE_ALIAS, "/c/x", {"/x"}),
        (SINGLE_ALIAS, "/a/bc", set()),
        (SINGLE_ALIAS, "/a", set()),
        (NAMED_ALIASES, "/a/b", {"/one", "/all/a/b"}),
        (NAMED_ALIASES, "/a/b/deep/x", {"/one/deep/x", "/two/x", "/all/a/b/deep/x"}),
        (NAMED_ALIASES, "/", {"/all"}),
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
    assert set(SINGLE_ALIAS.find_sources(TreePath("/a"), below=True)) == {"/"}
    assert set(NAMED_ALIASES.find_sources(TreePath("/a"), below=True)) >= {"/one", "/two"}
    assert set(SINGLE_ALIAS.find_sources(TreePath("/x"), below=True)) == set()
