"""Paths and names: attacks 1, 3 and 4."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath, check_existing_name, check_name
from mangrove.core.problems import BadRequest, RelativePath


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("", "/"), ("/", "/"), ("a", "/a"), ("//a///b/", "/a/b"), ("/a/./b", "/a/b"), ("a\\b", "/a/b"),
        ("/a..b/c", "/a..b/c"), ("/..a", "/..a"), ("/....//a", "/..../a"), ("/%2e%2e/a", "/%2e%2e/a"),
    ],
)  # fmt: skip
def test_a_path_is_cleaned(raw: str, clean: str) -> None:
    assert TreePath(raw) == clean
    assert TreePath(TreePath(raw)) == clean


@pytest.mark.parametrize("raw", ["..", "/..", "/a/../b", "a/..", "..\\a", "/a/..\\..", "/../../etc/passwd"])
def test_an_escape_is_refused(raw: str) -> None:
    with pytest.raises(RelativePath):
        TreePath(raw)
    with pytest.raises(RelativePath):
        TreePath("/base") / raw


@pytest.mark.parametrize("raw", ["/a\0b", "\ud800", "/" + "a" * 5000, "/" + "é" * 2100])
def test_what_is_no_path_is_refused(raw: str) -> None:
    with pytest.raises(BadRequest):
        TreePath(raw)


def test_joining_and_taking_apart() -> None:
    path = TreePath("/team/a") / "x/y"
    assert path == "/team/a/x/y"
    assert (path.name, path.parent) == ("y", "/team/a/x")
    assert path.within(TreePath("/team/a"))
    assert not TreePath("/team/ab").within(TreePath("/team/a"))
    assert path.below(TreePath("/team/a")) == "/x/y"
    assert path.below(TreePath("/")) == path
    assert [str(ancestor) for ancestor in path.ancestors()] == ["/team/a/x/y", "/team/a/x", "/team/a", "/team", "/"]
    assert TreePath("/").parent == "/"


@pytest.mark.parametrize("raw", ["", ".", "..", "a/b", "a\\b"])
def test_a_new_name_stays_in_its_folder(raw: str) -> None:
    with pytest.raises(RelativePath):
        check_name(raw)


@pytest.mark.parametrize("raw", ["a" * 256, "é" * 128, "a\nb", "a\0", "\x7f"])
def test_a_new_name_is_sane(raw: str) -> None:
    with pytest.raises(BadRequest):
        check_name(raw)


def test_an_existing_name_may_be_odd_but_not_elsewhere() -> None:
    assert check_existing_name("a\nb") == "a\nb"
    for raw in ("", "."):
        with pytest.raises(BadRequest):
            check_existing_name(raw)
    for raw in ("..", "../x", "a/b", "a\\b"):
        with pytest.raises(RelativePath):
            check_existing_name(raw)
