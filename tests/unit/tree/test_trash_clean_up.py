"""The hourly clean-up of the trash, and the repair after a process died."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from mangrove.drivers.part_names import TRASH
from mangrove.records import trash
from mangrove.records.trash import Action, TrashEntry, TrashKind
from mangrove.tree.trash import repair
from mangrove.tree.trash.content import get_path
from tests.unit.tree.environment import TreeEnv, find_files
from tests.unit.tree.test_trash import find_items, list_shown, mount, remove, restore, write


def change_intents(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all intents be those of a process that died."""
    monkeypatch.setattr(repair, "ABANDONED_SECONDS", -1.0)
    monkeypatch.setattr(repair, "FINISHING_SECONDS", -1.0)


def test_removal_that_broke_off_after_the_rename_is_finished(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    change_intents(tree, monkeypatch)
    mount(tree, "a.txt")
    remove(tree, "a.txt")
    (item,) = find_items(tree)
    trash.forget([item.entry])
    trash.add_intents([item.entry], Action.MOVE)
    assert [item.access.path for item in find_items(tree)] == ["/disk/a.txt"]
    assert trash.list_intents(10) == []


def test_removal_that_broke_off_before_the_rename_is_forgotten(
    tree: TreeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    root = mount(tree, "a.txt")
    remove(tree, "a.txt")
    (item,) = find_items(tree)
    restore(tree, item)
    trash.add_intents([item.entry], Action.MOVE)
    change_intents(tree, monkeypatch)
    tree.run(repair.sweep())
    assert (trash.list_intents(10), find_items(tree)) == ([], [])
    assert list_shown(root) == {"a.txt"}


def test_replacement_that_broke_off_leaves_the_file_in_its_place(
    tree: TreeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    root = mount(tree, "a.txt")
    write(tree, "/disk/a.txt", b"new")
    (item,) = find_items(tree)
    trashed_file = root / get_path(item.entry).lstrip("/")
    (root / "a.txt").unlink()
    os.link(trashed_file, root / "a.txt")
    trash.forget([item.entry])
    trash.add_intents([item.entry], Action.MOVE)
    change_intents(tree, monkeypatch)
    tree.run(repair.sweep())
    assert (root / "a.txt").read_text() == "a.txt"
    assert not trashed_file.exists()
    assert trash.list_intents(10) == []


def test_deletion_that_broke_off_is_continued(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    root = mount(tree, "a/b.txt")
    remove(tree, "a")
    trash.add_intents([find_items(tree)[0].entry], Action.DELETE)
    assert find_items(tree) == []
    change_intents(tree, monkeypatch)
    tree.run(repair.sweep())
    assert find_files(root) == {f"{TRASH}/"}


def test_sweep_deletes_what_is_too_old(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt", "b.txt")
    remove(tree, "a.txt", "b.txt")
    old, new = find_items(tree)
    long_ago = trash.make_first_id(time.time() - 31 * 86400)
    moved = replace(old.entry, id=long_ago + "0" * 16)
    (root / TRASH / old.entry.id).rename(root / TRASH / moved.id)
    trash.forget([old.entry])
    trash.finish(moved)
    tree.run(repair.sweep())
    assert [item.id for item in find_items(tree)] == [new.id]
    assert os.listdir(root / TRASH) == [new.entry.id]


def test_sweep_deletes_the_oldest_of_a_trash_that_is_too_large(tree: TreeEnv) -> None:
    root = mount(tree, "new.txt", trash_max_size=1)
    (root / "old").mkdir()
    (root / "old" / "large").write_bytes(bytes(900_000))
    (root / "newer").write_bytes(bytes(900_000))
    for name in ("old", "newer", "new.txt"):
        remove(tree, name)
    tree.run(repair.sweep())
    assert [item.access.path.name for item in find_items(tree)] == ["new.txt", "newer"]


def make_entry(number: int, owner: int) -> TrashEntry:
    return TrashEntry(f"{number:028x}", 1, f"/{number}", False, 1, 0.0, owner, "u", TrashKind.REMOVED)


def test_largest_trash_of_a_user_and_of_a_storage_is_admitted() -> None:
    limits = repair.TrashLimits(0)
    owners = repair.MAX_ENTRIES_PER_STORAGE // repair.MAX_ENTRIES_PER_OWNER
    entries_of_owners = (
        make_entry(number, owner) for number in range(repair.MAX_ENTRIES_PER_OWNER) for owner in range(owners)
    )
    assert all(limits.admits(entry, 1) for entry in entries_of_owners)
    assert not limits.admits(make_entry(0, owners), 1)
    limits = repair.TrashLimits(0)
    assert all(limits.admits(make_entry(number, 1), 1) for number in range(repair.MAX_ENTRIES_PER_OWNER))
    assert (limits.admits(make_entry(0, 1), 1), limits.admits(make_entry(0, 2), 1)) == (False, True)


def test_sweep_deletes_the_oldest_entries_of_a_user_beyond_the_limit(
    tree: TreeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = mount(tree, "1", "2", "3", "other")
    for name in ("1", "2", "3"):
        remove(tree, name)
    tree.user = replace(tree.user, id=tree.user.id + 1)
    remove(tree, "other")
    monkeypatch.setattr(repair, "MAX_ENTRIES_PER_OWNER", 2)
    tree.run(repair.sweep())
    assert [item.access.path.name for item in find_items(tree, "/disk")] == ["other", "3", "2"]
    assert len(os.listdir(root / TRASH)) == 3


def test_sweep_settles_more_intents_than_a_page_has(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    root = mount(tree, *map(str, range(5)))
    for name in range(5):
        remove(tree, str(name))
    trash.add_intents([item.entry for item in find_items(tree)], Action.DELETE)
    change_intents(tree, monkeypatch)
    monkeypatch.setattr(repair, "MAX_INTENTS_PER_CALL", 2)
    tree.run(repair.sweep())
    assert (trash.list_intents(10), os.listdir(root / TRASH)) == ([], [])
