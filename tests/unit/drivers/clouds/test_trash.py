"""The trash of a drive: it renames files, and moves folders file by file."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mangrove.core.chunked import stream
from mangrove.core.paths import TRASH, TreePath
from mangrove.drivers.base import DriverContext, Upload, list_all
from mangrove.drivers.options import moving_trash_option
from mangrove.records import trash
from mangrove.records.trash import TrashKind
from mangrove.tree.trash.content import get_path
from mangrove.tree.trash.moving import MovingTrashDriver, keep_removed, move_content
from tests.unit.drivers.clouds.test_drives import FolderDrive, FolderOptions

P = TreePath
STORAGE_ID = 7


class TrashOptions(FolderOptions):
    trash_days: int = moving_trash_option()


def read(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


async def use(root: Path) -> None:
    options = TrashOptions(root_folder_path=str(root), atomic_write_dir=str(root.parent / "parts"), trash_days=30)
    driver = keep_removed(FolderDrive(options, DriverContext(storage_id=STORAGE_ID)))
    assert isinstance(driver, MovingTrashDriver)
    await driver.start()
    await driver.discard(P("/d"))
    (entry,) = trash.list_of(STORAGE_ID, 10)
    assert (entry.path, entry.is_dir, entry.is_moved) == ("/d", True, True)
    assert [item.name for item in await list_all(driver, P("/"))] == ["f"]
    assert read(root) == {"f": "f"} | {f"{get_path(entry)[1:]}/{name}": name for name in ("a", "b/c")}
    await move_content(driver.unwrap(), get_path(entry), P("/back"))
    assert read(root) == {"f": "f", "back/a": "a", "back/b/c": "b/c"}
    await driver.write(P("/f"), stream(b"new"), Upload(3, time.time()))
    replaced = trash.list_of(STORAGE_ID, 10)[0]
    assert (replaced.kind, (root / get_path(replaced)[1:]).read_text()) == (TrashKind.REPLACED, "f")
    await driver.stop()


@pytest.mark.usefixtures("records")
def test_drive_moves_a_removed_folder_file_by_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("f", "d/a", "d/b/c"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name.removeprefix("d/"))
    assert TRASH not in read(root)
    asyncio.run(use(root))
