"""Restores beside other changes of the same folder."""

from __future__ import annotations

import shutil

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry
from mangrove.drivers.local.driver import Local
from mangrove.tree.trash.content import get_path
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


@pytest.mark.parametrize(("refuses", "count"), [(True, 2), (False, 1)])
def test_replaced_file_is_looked_up_again_only_under_a_lock_of_its_own(
    tree: TreeEnv, monkeypatch: pytest.MonkeyPatch, refuses: bool, count: int
) -> None:
    """A storage that cannot refuse a taken name has been locked by the caller."""
    root = mount(tree, "a.txt")
    driver = tree.run(tree.access("/disk").locate()).driver
    stat, paths = Local.stat, list[TreePath]()

    async def answer(driver: Local) -> bool:
        return refuses

    async def note(driver: Local, path: TreePath) -> Entry:
        entry = await stat(driver, path)
        paths.append(path)
        return entry

    async def replace() -> None:
        async with driver.replacing(TreePath("/a.txt")) as keep:
            await keep()
            (root / "new").write_text("new")
            (root / "new").rename(root / "a.txt")

    monkeypatch.setattr(Local, "can_refuse_existing", answer)
    monkeypatch.setattr(Local, "stat", note)
    tree.run(replace())
    assert paths == ["/a.txt"] * count
    (item,) = find_items(tree)
    assert (root / get_path(item.entry).lstrip("/")).read_text() == "a.txt"
