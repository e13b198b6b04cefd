"""The changes that make a cached folder old: of itself, of a tree above it, of all folders."""

from __future__ import annotations

import pytest

from mangrove.tree.listing.folder import Stamp, count_change_of_all, count_folder_changes, count_tree_changes


@pytest.mark.parametrize("path", ["/", "/a", "/a/b/c"])
def test_a_change_in_the_folder_itself(path: str) -> None:
    stamp = Stamp((1, path))
    assert stamp.is_current()
    count_folder_changes([(1, path)])
    assert not stamp.is_current()
    assert not stamp.is_current()
    assert Stamp((1, path)).is_current()


@pytest.mark.parametrize(
    ("tree", "is_current"),
    [("/", False), ("/a", False), ("/a/b", False), ("/a/b/c", True), ("/a/bc", True), ("/b", True)],
)
def test_a_change_of_a_whole_tree_is_one_of_all_below(tree: str, is_current: bool) -> None:
    stamp, elsewhere = Stamp((1, "/a/b")), Stamp((2, "/a/b"))
    count_tree_changes([(1, tree)])
    assert stamp.is_current() is is_current
    assert elsewhere.is_current()


def test_what_changes_elsewhere_is_no_change() -> None:
    stamp = Stamp((1, "/a"))
    count_folder_changes([(1, "/"), (1, "/a/b"), (2, "/a")])
    assert stamp.is_current()


def test_a_change_of_every_folder() -> None:
    stamp = Stamp((1, "/a/b"))
    count_change_of_all()
    assert not stamp.is_current()
