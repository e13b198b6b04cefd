"""The rights of a caller at a path."""

from __future__ import annotations

import itertools

import pytest

from mangrove.core.problems import AccessDenied, BadRequest, EntryNotFound, RelativePath, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.identity.rights import Right
from mangrove.tree.access import VisibilityFilter
from mangrove.tree.listing.lookups import look_up
from tests.unit.tree import builders
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv
from tests.unit.tree.memory_folders import MemoryFolders


def test_a_path_lies_below_the_users_root(tree: TreeEnv) -> None:
    tree.change_user(base_path="/disk/home")
    assert tree.access("/a/./b").path == "/disk/home/a/b"
    assert tree.access("").path == "/disk/home"
    for raw in ("../x", "/a/../../x", "a\\..\\x"):
        with pytest.raises(RelativePath):
            tree.access(raw)
    with pytest.raises(BadRequest):
        tree.access("a\0b")


def test_a_child_is_in_its_folder() -> None:
    access = builders.access(MemoryFolders(), "/a", Right.READ)
    assert access.child("b").path == "/a/b"
    assert access.child("b").parent.path == "/a"
    with pytest.raises(RelativePath):
        access.child("../b")


def test_only_the_declared_right_can_be_required() -> None:
    for declared, required in itertools.product(Right, repeat=2):
        access = builders.access(MemoryFolders(), "/a", declared)
        if declared is required:
            access.require(required)
        else:
            with pytest.raises(AccessDenied, match="declared"):
                access.require(required)


@pytest.mark.parametrize(
    ("right", "permission", "fields", "allowed"),
    [
        (Right.WRITE, Right.WRITE, {}, True), (Right.WRITE, 0, {}, False), (Right.WRITE, 0, {"write": True}, True),
        (Right.WRITE, 0, {"write": True, "write_users": [0]}, False),
        (Right.WRITE, Right.WRITE, {"write_users": [0]}, False), (Right.WRITE, Right.WRITE, {"write_users": [7]}, True),
        (Right.DELETE, 0, {"write": True}, False), (Right.DELETE, Right.DELETE, {"write_users": [0]}, False),
        (Right.DELETE, Right.DELETE, {}, True), (Right.MOVE, Right.COPY, {}, False),
    ],
)  # fmt: skip
def test_a_right_takes_the_permission_and_the_rule(
    right: Right, permission: int, fields: dict[str, object], allowed: bool
) -> None:
    access = builders.access(MemoryFolders(), "/a/b", right, builders.meta("/a", **fields), permission=permission)
    if allowed:
        access.parent.require(right)
    else:
        with pytest.raises(AccessDenied):
            access.parent.require(right)
    if right is Right.WRITE:
        assert access.parent.can_write() is allowed


def test_whole_folders_are_neither_taken_from_nor_put_above_a_rule() -> None:
    for fields, exported, moved in (
        ({"password": "x"}, False, False), ({"read_users": [0]}, False, False), ({"hide": "x"}, False, False),
        ({"write_users": [0]}, True, False), ({"readme": "x"}, True, True),
    ):  # fmt: skip
        rule = builders.meta("/a/b/c", **fields)
        access = builders.access(MemoryFolders(), "/a", Right.READ, rule, permission=0)
        for changes, allowed in ((False, exported), (True, moved)):
            if allowed:
                access.require_export(changes)
            else:
                with pytest.raises(AccessDenied):
                    access.require_export(changes)
        if moved:
            access.require_import()
        else:
            with pytest.raises(AccessDenied):
                access.require_import()
        access.with_path(access.path / "other").require_export()


def test_reading_needs_the_folder_password() -> None:
    rule = builders.meta("/a", password="secret", p_sub=True)
    access = builders.access(MemoryFolders(), "/a/b", Right.READ, rule, permission=0)
    with pytest.raises(AccessDenied):
        access.require_read()
    builders.access(MemoryFolders(), "/a/b", Right.READ, rule, permission=Right.SKIP_PASSWORD).require_read()


ENTRIES = [Entry("a", 1, 0.0, False), Entry("hidden", 1, 0.0, False), Entry("closed", 0, 0.0, True)]


def test_entries_that_a_rule_keeps_from_the_caller_are_filtered() -> None:
    metas = builders.meta("/", hide="^hidden$"), builders.meta("/closed", read_users=[0])
    access = builders.access(MemoryFolders(), "/", Right.READ, *metas, permission=0)
    visibility = access.make_visibility_filter()
    assert [entry.name for entry in visibility.select(ENTRIES)] == ["a"]
    assert [visibility.passes(entry) for entry in ENTRIES] == [True, False, False]


def test_filters_of_users_who_see_the_same_are_equal_and_others_are_not() -> None:
    def make(permission: int, *fields: dict[str, object]) -> VisibilityFilter:
        metas = [builders.meta(f"/{number or ''}", id=5, **meta_fields) for number, meta_fields in enumerate(fields)]
        return builders.access(MemoryFolders(), "/", Right.READ, *metas, permission=permission).make_visibility_filter()

    assert make(0) == make(Right.SEE_HIDDEN) == VisibilityFilter(None, None)
    hides: dict[str, object] = {"hide": "x"}
    assert make(0, hides).key == make(Right.WRITE, hides).key
    assert make(0, hides).key != make(Right.SEE_HIDDEN, hides).key
    assert make(0, hides).key != make(0, {}, {"read_users": [0]}).key


def test_virtual_folders_that_are_hidden_are_left_out(tree: TreeEnv) -> None:
    for path in ("/a/open", "/a/hidden", "/a/closed"):
        tree.mount_disk(path)
    tree.add_rule("/a", hide="^hidden$")
    tree.add_rule("/a/closed", read_users=[0])
    assert list(tree.access("/a").find_virtual_folders()) == ["open"]
    tree.change_user(ALL_RIGHTS | Right.SEE_HIDDEN)
    assert list(tree.access("/a").find_virtual_folders()) == ["hidden", "open"]


def test_mounts_and_the_folders_above_them_are_known(tree: TreeEnv) -> None:
    tree.mount_disk("/a/b")
    assert [tree.access(path).is_mount_or_ancestor() for path in ("/", "/a", "/a/b", "/a/b/c", "/ab")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_path_is_located_in_its_storage(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "d/file")
    storage_path = tree.run(tree.access("/disk/d/file").locate())
    assert (storage_path.driver.name, storage_path.path, storage_path.mount.path) == ("Local", "/d/file", "/disk")
    assert (storage_path.parent.path, storage_path.parent.child("x").path) == ("/d", "/d/x")
    assert tree.run(look_up(storage_path)).size == len("d/file")
    with pytest.raises(StorageProblem, match="rawPath: /none"):
        tree.run(tree.access("/none").locate())
    with pytest.raises(EntryNotFound):
        tree.run(look_up(storage_path.parent.child("none")))


def test_a_driver_without_direct_lookup_is_asked_for_the_folder(tree: TreeEnv) -> None:
    driver = MemoryFolders()
    driver.folders["/"] = ["a", "b"]
    access = builders.access(driver, "/", Right.READ)
    storage_path = tree.run(access.locate())
    for name in ("a", "b"):
        assert tree.run(look_up(storage_path.child(name))).name == name
    with pytest.raises(EntryNotFound):
        tree.run(look_up(storage_path.child("c")))
    assert driver.reads == 1
