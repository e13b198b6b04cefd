"""Making, renaming and removing: the right on the final path of every item, and all of it or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mangrove.core import deadlines
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryExists,
    EntryNotFound,
    NameConflict,
    NotSupported,
    OutOfTime,
    Problem,
    RelativePath,
    StorageForbidden,
    StorageProblem,
)
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import changes, transfers
from tests.unit.tree import builders
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv, find_files
from tests.unit.tree.memory_folders import MemoryFolders


def mkdir(tree: TreeEnv, path: str) -> None:
    tree.run(changes.mkdir(tree.access(path, Right.WRITE)))


def rename(tree: TreeEnv, path: str, name: str, overwrite: bool = False) -> None:
    tree.run(transfers.rename(tree.access(path, Right.RENAME), name, overwrite))


def rename_all(tree: TreeEnv, folder: str, **new_names: str) -> None:
    tree.run(transfers.rename_all(tree.access(folder, Right.RENAME), new_names))


def rename_by_pattern(tree: TreeEnv, folder: str, pattern: str, template: str) -> None:
    tree.run(transfers.rename_by_pattern(tree.access(folder, Right.RENAME), pattern, template))


def remove(tree: TreeEnv, folder: str, *names: str) -> None:
    tree.run(changes.remove(tree.access(folder, Right.DELETE), names))


def list_names(tree: TreeEnv, path: str) -> list[str]:
    return sorted(entry.name for entry in tree.run(tree.access(path).list_folder()).entries)


def test_a_folder_is_made_with_those_above_it_and_listings_show_it(tree: TreeEnv) -> None:
    disk = tree.mount_disk()
    assert list_names(tree, "/disk") == []
    mkdir(tree, "/disk/a/b")
    mkdir(tree, "/disk/a/b")
    assert find_files(disk) == {"a/b/"}
    assert list_names(tree, "/disk") == ["a"]


def test_a_folder_is_not_made_over_a_file(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "x")
    with pytest.raises(EntryExists):
        mkdir(tree, "/disk/x")
    assert find_files(disk) == {"x"}


def test_no_folder_is_made_on_the_way_where_a_rule_denies_writing(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "closed/")
    tree.add_rule("/disk/closed", write_users=[0])
    for path in ("/disk/closed/new", "/disk/closed/new/sub"):  # the rule does not reach below its own folder
        with pytest.raises(AccessDenied):
            mkdir(tree, path)
    assert find_files(disk) == {"closed/"}


def test_the_right_is_required_even_when_the_folder_is_there(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "d/")
    tree.change_user(ALL_RIGHTS & ~Right.WRITE)
    for path in ("/disk/d", "/disk"):
        with pytest.raises(AccessDenied):
            mkdir(tree, path)


@pytest.mark.parametrize("name", ["a\nb", "a\x7f"])
def test_a_name_that_no_new_entry_may_have_is_refused_at_any_depth(tree: TreeEnv, name: str) -> None:
    disk = tree.mount_disk()
    for path in (f"/disk/{name}", f"/disk/{name}/below"):
        with pytest.raises(BadRequest):
            mkdir(tree, path)
    assert find_files(disk) == set()


@pytest.mark.parametrize("right", list(Right))
def test_a_verb_asks_for_its_own_right_whatever_else_the_route_declared(tree: TreeEnv, right: Right) -> None:
    disk = tree.mount_disk("/disk", "a")
    access = tree.access("/disk", right)
    verbs = {
        Right.WRITE: lambda: changes.mkdir(access.child("new")),
        Right.RENAME: lambda: transfers.rename_all(access, {"a": "b"}),
        Right.DELETE: lambda: changes.remove(access, ["a"]),
    }
    for needed, verb in verbs.items():
        if needed is not right:
            with pytest.raises(AccessDenied):
                tree.run(verb())
    assert find_files(disk) == {"a"}


@pytest.mark.parametrize("right", [Right.WRITE, Right.RENAME, Right.DELETE])
def test_without_the_right_nothing_changes(tree: TreeEnv, right: Right) -> None:
    disk = tree.mount_disk("/disk", "a")
    tree.change_user(ALL_RIGHTS & ~right)
    verbs = {
        Right.WRITE: lambda: mkdir(tree, "/disk/new"),
        Right.RENAME: lambda: rename(tree, "/disk/a", "b"),
        Right.DELETE: lambda: remove(tree, "/disk", "a"),
    }
    with pytest.raises(AccessDenied):
        verbs[right]()
    assert find_files(disk) == {"a"}


def test_a_file_gets_a_new_name(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "d/a", "d/taken")
    assert list_names(tree, "/disk/d") == ["a", "taken"]
    rename(tree, "/disk/d/a", "b")
    assert find_files(disk) == {"d/b", "d/taken"}
    assert list_names(tree, "/disk/d") == ["b", "taken"]
    with pytest.raises(NameConflict, match=r"file \[taken\] exists"):
        rename(tree, "/disk/d/b", "taken")
    rename(tree, "/disk/d/b", "taken", overwrite=True)
    assert (disk / "d/taken").read_text() == "d/a"


@pytest.mark.parametrize("name", ["", ".", "..", "x/y", "../x", "x\\y"])
def test_a_new_name_stays_in_its_folder(tree: TreeEnv, name: str) -> None:
    disk = tree.mount_disk("/disk", "d/a")
    with pytest.raises(RelativePath):
        rename(tree, "/disk/d/a", name)
    assert find_files(disk) == {"d/a"}


def test_mounts_and_the_users_own_root_keep_their_names(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "home/a")
    tree.mount_disk("/disk/sub/mounted")
    tree.change_user(base_path="/disk/home")
    with pytest.raises(StorageProblem, match="rename root folder"):
        rename(tree, "/", "x")
    tree.change_user(base_path="/")
    with pytest.raises(StorageProblem, match="rename root folder"):
        rename(tree, "/disk/sub/mounted", "x")
    with pytest.raises(StorageForbidden):
        rename(tree, "/disk/sub", "x")
    with pytest.raises(NameConflict):
        rename(tree, "/disk/home", "sub", overwrite=True)


@pytest.mark.parametrize(
    ("new_names", "problem"),
    [
        ({"a": "x", "none": "y"}, EntryNotFound), ({"a": "x", "b": "x"}, NameConflict), ({"a": "x", "b": "c"},
        NameConflict),
        ({"a": "x", "hidden": "y"}, EntryNotFound), ({"a": "x", "locked": "y"}, AccessDenied),
        ({"a": "x", "b": ".."}, RelativePath), ({"a": "x", "..": "y"}, RelativePath),
        ({"a": "x", "b": "hidden"}, NameConflict), ({"a": "x", "b": "rules"}, AccessDenied),
    ],
)  # fmt: skip
def test_when_one_of_many_names_is_refused_none_is_changed(
    tree: TreeEnv, new_names: dict[str, str], problem: type[Problem]
) -> None:
    names = {"a", "b", "c", "hidden", "locked/file"}
    disk = tree.mount_disk("/disk", *names)
    tree.add_rule("/disk", hide="^hidden$")
    tree.add_rule("/disk/locked", password="secret")
    tree.add_rule("/disk/rules/below", write_users=[0])
    with pytest.raises(problem):
        rename_all(tree, "/disk", **new_names)
    assert find_files(disk) == names


def test_hidden_names_are_not_replaced(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "a", "hidden")
    tree.add_rule("/disk", hide="^hidden$")
    with pytest.raises(NameConflict):
        rename(tree, "/disk/a", "hidden", overwrite=True)
    assert (disk / "hidden").read_text() == "hidden"


@pytest.mark.parametrize(
    ("pattern", "template", "names"),
    [
        (r"(\w+)-(\d+)\.txt", "${2}_$1.txt", {"1_a.txt", "2_b.txt", "plain"}),
        (r"-(?P<n>\d+)", "+${n}$$", {"a+1$.txt", "b+2$.txt", "plain"}),
        (r"\.txt", "$9$none", {"a-1", "b-2", "plain"}), ("nothing", "x", {"a-1.txt", "b-2.txt", "plain"}),
    ],
)  # fmt: skip
def test_names_are_changed_by_pattern(tree: TreeEnv, pattern: str, template: str, names: set[str]) -> None:
    disk = tree.mount_disk("/disk", "a-1.txt", "b-2.txt", "plain")
    rename_by_pattern(tree, "/disk", pattern, template)
    assert find_files(disk) == names


def test_a_pattern_changes_no_hidden_name_and_nothing_when_two_names_meet(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "a1", "a2", "hidden1")
    tree.add_rule("/disk", hide="^hidden")
    with pytest.raises(NameConflict):
        rename_by_pattern(tree, "/disk", r"\d", "")
    assert find_files(disk) == {"a1", "a2", "hidden1"}
    rename_by_pattern(tree, "/disk", "1", "3")
    assert find_files(disk) == {"a3", "a2", "hidden1"}


@pytest.mark.parametrize(
    ("pattern", "problem", "text"),
    [("(", StorageProblem, r"^error parsing regexp: missing \)"), ("a" * 1001, BadRequest, "too long")],
)
def test_a_pattern_that_is_none_is_refused(tree: TreeEnv, pattern: str, problem: type[Problem], text: str) -> None:
    tree.mount_disk("/disk", "a")
    with pytest.raises(problem, match=text):
        rename_by_pattern(tree, "/disk", pattern, "x")


def test_entries_are_removed_with_all_they_hold(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "d/e/f", "a", "b")
    assert list_names(tree, "/disk") == ["a", "b", "d"]
    remove(tree, "/disk", "d", "a", "none")
    assert find_files(disk) == {"b"}
    assert list_names(tree, "/disk") == ["b"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ((), BadRequest), (("a", ""), BadRequest), (("a", ".."), RelativePath), (("a", "d/e"), RelativePath),
        (("a", "mounted"), StorageForbidden), (("a", "locked"), StorageForbidden), (("a", "readonly"),
        StorageForbidden),
        (("a", "hides"), StorageForbidden),
    ],
)  # fmt: skip
def test_when_one_of_many_may_not_be_removed_none_is(
    tree: TreeEnv, names: tuple[str, ...], problem: type[Problem]
) -> None:
    files = {"a", "d/e", "locked/x/y", "readonly/x/y", "hides/x"}
    disk = tree.mount_disk("/disk", *files)
    tree.mount_disk("/disk/mounted/deep")
    tree.add_rule("/disk/locked/x", password="secret")
    tree.add_rule("/disk/readonly/x", write_users=[0])
    tree.add_rule("/disk/hides", hide="x")
    with pytest.raises(problem):
        remove(tree, "/disk", *names)
    assert find_files(disk) == files


def test_a_hidden_name_stays_as_if_it_were_not_there(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "hidden", "a")
    tree.add_rule("/disk", hide="^hidden$")
    remove(tree, "/disk", "hidden", "a")
    assert find_files(disk) == {"hidden"}


def test_empty_folders_are_removed_however_deep(tree: TreeEnv) -> None:
    disk = tree.mount_disk(
        "/disk", "top/empty/deep/er/", "top/full/file", "top/full/empty/", "top/closed/", "top/hidden/"
    )
    tree.mount_disk("/disk/top/mounted")
    (disk / "top/mounted").mkdir()
    tree.add_rule("/disk/top", hide="^hidden$")
    tree.add_rule("/disk/top/closed", write_users=[0])
    tree.run(changes.remove_empty(tree.access("/disk/top", Right.DELETE)))
    assert find_files(disk) == {"top/full/file", "top/closed/", "top/hidden/", "top/mounted/"}


@pytest.mark.parametrize(
    ("right", "verb"),
    [
        (Right.WRITE, lambda folder: changes.mkdir(folder.child("x"))),
        (Right.RENAME, lambda folder: transfers.rename(folder.child("a"), "b", False)),
        (Right.DELETE, lambda folder: changes.remove(folder, ["a"])), (Right.DELETE, changes.remove_empty),
    ],
)  # fmt: skip
def test_a_storage_that_cannot_do_it_is_not_even_listed(
    right: Right, verb: Callable[[PathAccess], Coroutine[Any, Any, None]]
) -> None:
    driver = MemoryFolders()
    driver.folders["/"] = ["a"]
    with pytest.raises(NotSupported):
        asyncio.run(verb(builders.access(driver, "/", right)))
    assert driver.reads == 0


def test_where_no_storage_is_the_message_names_the_end(tree: TreeEnv) -> None:
    for role, text in (("src", "failed get src storage: "), ("", "failed get storage: ")):
        with pytest.raises(StorageProblem, match=text):
            tree.run(tree.access("/none").locate(role))


def test_a_listing_that_is_read_while_a_name_changes_is_not_kept(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a")

    async def change_while_listing() -> None:
        access = tree_access["read"]
        listing = asyncio.create_task(access.list_folder())
        await changes.remove(tree_access["delete"], ["a"])
        await listing

    tree_access = {"read": tree.access("/disk"), "delete": tree.access("/disk", Right.DELETE)}
    tree.run(change_while_listing())
    assert list_names(tree, "/disk") == []


@pytest.mark.parametrize("work", [lambda folder: changes.remove(folder, ["a"]), changes.remove_empty])
def test_without_time_nothing_more_is_removed(
    tree: TreeEnv, work: Callable[[PathAccess], Coroutine[Any, Any, None]]
) -> None:
    disk = tree.mount_disk("/disk", "a", "empty/")
    folder = tree.access("/disk", Right.DELETE)

    async def remove() -> None:
        with deadlines.limit(0):
            await work(folder)

    with pytest.raises(OutOfTime):
        tree.run(remove())
    assert find_files(disk) == {"a", "empty/"}
