"""Names on an SMB server."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageProblem
from mangrove.drivers.smb.client import StorageRoot, is_valid_name

P = TreePath


@pytest.mark.parametrize(
    "name", ["a", "a.b", ".hidden", " a", "日本", "con fusion", "console", "com10", "n" * 255, "🌳" * 127]
)
def test_what_a_server_holds(name: str) -> None:
    assert is_valid_name(name)
    assert StorageRoot(P("/top")).make(P(f"/d/{name}")) == f"top\\d\\{name}"


@pytest.mark.parametrize(
    "name",
    ["a?", "*", "a:b", '"', "<", ">", "|", "a.", "a ", "CON", "con.txt", "Lpt1 .x", "n" * 256, "🌳" * 128, "\x01"],
)
def test_what_no_server_holds(name: str) -> None:
    root = StorageRoot(P("/"))
    assert not is_valid_name(name)
    with pytest.raises(StorageProblem) as raised:
        root.make(P(f"/{name}/f"))
    assert repr(name) in str(raised.value)
    with pytest.raises(EntryNotFound):
        root.find(P(f"/{name}/f"))


def test_a_root_is_written_in_many_ways() -> None:
    for text in (".", "/", "", "./"):
        root = StorageRoot(P(text))
        assert (root.find(P("/")), root.find(P("/a/b")), root.depth) == ("", "a\\b", 0)
    for text in ("a/b", "/a/b/", "a\\b", "./a/b"):
        root = StorageRoot(P(text))
        assert (root.find(P("/")), root.find(P("/c")), root.depth) == ("a\\b", "a\\b\\c", 2)


def test_unfinished_files_are_not_found() -> None:
    with pytest.raises(EntryNotFound):
        StorageRoot(P("/")).find(P("/d/.mangrove-12.part"))
