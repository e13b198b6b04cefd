"""Which storage holds a path."""

from __future__ import annotations

import pytest

from mangrove.paths import TreePath
from mangrove.problems import StorageProblem
from mangrove.tree.mounts import Mount, MountTable, select_mount
from tests.unit.tree.builders import mount

P = TreePath


def table(*mounts: Mount | str) -> MountTable:
    return MountTable(1, [mount(one) if isinstance(one, str) else one for one in mounts])


@pytest.mark.parametrize(
    ("path", "mounted", "inner"),
    [
        ("/a", "/a", "/"), ("/a/x", "/a", "/x"), ("/a/b", "/a/b", "/"), ("/a/b/c/d", "/a/b", "/c/d"),
        ("/a/bc", "/a", "/bc"), ("/a/b.balance", "/a", "/b.balance"), ("/d/e/f", "/d/e", "/f"),
    ],
)  # fmt: skip
def test_the_longest_mount_path_holds_a_path(path: str, mounted: str, inner: str) -> None:
    found, rest = select_mount(table("/a", "/a/b", "/d/e"), P(path))
    assert (found.storage.mount_path, rest) == (mounted, inner)


def test_a_storage_at_the_root_holds_what_no_other_does() -> None:
    tree = table("/", "/a")
    assert select_mount(tree, P("/x/y"))[1] == "/x/y"
    assert select_mount(tree, P("/a/y"))[1] == "/y"
    assert list(tree.find_virtual_folders(P("/"))) == ["a"]


@pytest.mark.parametrize("path", ["/x", "/ab", "/d", "/"])
def test_where_nothing_is_mounted_there_is_no_storage(path: str) -> None:
    with pytest.raises(StorageProblem, match="storage not found"):
        select_mount(table("/a", "/d/e"), P(path))


def test_balanced_storages_are_one_folder_and_take_turns() -> None:
    tree = table("/disk.balance1", "/disk", "/disk.balance", "/other")
    assert sorted(tree.find_virtual_folders(P("/"))) == ["disk", "other"]
    chosen = [select_mount(tree, P("/disk/x")) for _ in range(6)]
    assert {inner for _, inner in chosen} == {"/x"}
    names = [found.storage.mount_path for found, _ in chosen]
    assert names[:3] == names[3:]
    assert set(names) == {"/disk", "/disk.balance", "/disk.balance1"}
    with pytest.raises(StorageProblem):
        select_mount(tree, P("/disk.balance1/x"))


def test_virtual_folders_lead_to_mounts() -> None:
    tree = table("/a/b/c", "/a/b/d", "/a/e", "/f")
    assert list(tree.find_virtual_folders(P("/"))) == ["a", "f"]
    assert list(tree.find_virtual_folders(P("/a"))) == ["b", "e"]
    assert list(tree.find_virtual_folders(P("/a/b"))) == ["c", "d"]
    for path in ("/a/b/c", "/f", "/x", "/a/bb"):
        assert tree.find_virtual_folders(P(path)) == {}
    assert tree.ancestors == {"/", "/a", "/a/b"}


def test_virtual_folders_come_in_the_order_of_the_storages() -> None:
    tree = table(mount("/z", order=1), mount("/a", order=2), mount("/m/x", order=3), mount("/m/a", order=0))
    assert list(tree.find_virtual_folders(P("/"))) == ["m", "z", "a"]
    assert tree.find_virtual_folders(P("/"))["m"].storage.mount_path == "/m/a"
