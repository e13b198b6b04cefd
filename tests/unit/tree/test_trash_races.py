"""Restores beside other changes of the same folder."""

from __future__ import annotations

import shutil

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.local.driver import Local
from tests.unit.tree.environment import TreeEnv
from tests.unit.tree.test_trash import find_items, list_shown, mount, remove, restore


def test_restore_into_a_folder_that_is_removed_meanwhile_can_be_repeated(
    tree: TreeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = mount(tree, "a/one.txt")
    remove(tree, "one.txt", folder="/disk/a")
    (item,) = find_items(tree)
    move = Local.move

    async def move_after_removal(driver: Local, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        shutil.rmtree(root / "a")
        await move(driver, path, target, overwrite=overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(Local, "move", move_after_removal)
        outcome = restore(tree, item)
    assert [id for id, _ in outcome.failed] == [item.id]
    (remaining,) = find_items(tree)
    assert restore(tree, remaining).done == [(item.id, "/disk/a/one.txt")]
    assert list_shown(root) == {"a/one.txt"}


def test_restore_of_an_entry_that_is_gone_forgets_it(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt")
    remove(tree, "a.txt")
    (item,) = find_items(tree)
    shutil.rmtree(root / ".mangrove-trash")
    outcome = restore(tree, item)
    assert [str(problem) for _, problem in outcome.failed] == ["the entry is not in the trash any more"]
    assert find_items(tree) == []
