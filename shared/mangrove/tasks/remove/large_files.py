"""Files that a storage cannot copy in one call: the task copies them into the trash, or back, in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.core.problems import NotMounted
from mangrove.tasks.core.file_copy import CopyMode, copy_file
from mangrove.tasks.core.files import TargetListing
from mangrove.tasks.core.model import SourceVersion
from mangrove.tasks.core.partials import StepEnded
from mangrove.tree import mounts
from mangrove.tree.trash.moving import LargeFile
from mangrove.tree.trash.versions import KeptPath

if TYPE_CHECKING:
    from mangrove.tasks.core.steps import Run
    from mangrove.tasks.remove.declaration import RemoveCursor, RemoveSpec


async def move_large_file(run: Run[RemoveSpec, RemoveCursor], file: LargeFile) -> None:
    """Copy a file in parts and remove it from its old path. A step that ends before continues with the next step."""
    driver = file.driver
    mount = (await mounts.ready()).by_id.get(driver.context.storage_id)
    if mount is None:
        raise NotMounted
    source, target = KeptPath(driver, file.path, mount), KeptPath(driver, file.target, mount)
    version = SourceVersion.of(await driver.stat(file.path))
    try:
        copied = await copy_file(run, source, target, version, TargetListing(driver), CopyMode(overwrite=True))
    except StepEnded:
        return
    await driver.remove_unchanged(file.path, copied.version)
