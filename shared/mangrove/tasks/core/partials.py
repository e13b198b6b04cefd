"""Files that are stored in parts, in a storage or in staging: started, continued and dropped.

The parts of a task are dropped when it ends, also if the storage was deleted or disabled meanwhile: its options are
kept, encrypted, beside the parts. Parts that cannot be reached then are recorded in staging, and the sweep drops them.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import NamedTuple

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.codec import dump, parse
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, NotSupported, Problem, Unreachable
from mangrove.drivers import registry
from mangrove.drivers.base import ROOT, Driver, DriverContext, Entry, Upload, list_all, make_parts_key
from mangrove.records.store.encryption import decrypt, encrypt
from mangrove.tasks.core import files, staging
from mangrove.tasks.core.files import FilePath
from mangrove.tasks.core.model import Cursor, CursorT, PartialFile, SpecT
from mangrove.tasks.core.staging import ManifestLost, StagedList, StagedPath
from mangrove.tasks.core.steps import Run
from mangrove.tree import mounts
from mangrove.tree.mounts import Mount, StoragePath

ABANDONED = "abandoned"  # the folder of staging with the partial files that the sweep drops
MAX_ABANDONED_SECONDS = 30 * 24 * 3600.0  # after which the attempt to reach a storage ends
START_SECONDS = 30.0
NO_RECORD_KEY = b""  # the context of the encryption; no encrypted attribute of a record has it


class StepEnded(Exception):
    """The step has ended before the file. The next step continues it."""


@dataclass(kw_only=True)
class StorageData:
    """The data that reaches a storage without its record."""

    id: int
    driver: str
    addition: str
    """As in `records.storages.Storage`."""


def _describe(mount: Mount) -> StorageData:
    storage = mount.storage
    return StorageData(id=storage.id, driver=storage.driver, addition=storage.addition)


def remember_storage(mount: Mount) -> str:
    """Return the encrypted options with which a storage is reached later."""
    return b64encode(encrypt(dump(_describe(mount)).decode(), NO_RECORD_KEY)).decode()


def _unseal(storage: str) -> StorageData:
    return parse(StorageData, decrypt(b64decode(storage), NO_RECORD_KEY))


@asynccontextmanager
async def _open_storage(storage: str) -> AsyncIterator[Driver]:
    """Return the driver of a storage as `remember_storage` recorded it: that of its mount, or a temporary one if no
    mount has the same options any more. "" is staging.
    """
    if not storage:
        yield await staging.driver()
        return
    record = _unseal(storage)
    for mount in (await mounts.ready()).mounts:
        if _describe(mount) == record:
            yield await mount.get_driver()
            return
    kind = registry.load(record.driver)
    driver = kind(kind.Options.parse(record.addition), DriverContext())
    try:
        async with asyncio.timeout(START_SECONDS):
            await driver.start()
        yield driver
    except TimeoutError:
        raise Unreachable from None
    finally:
        await driver.stop()


async def begin_partial(
    run: Run[SpecT, CursorT], target: FilePath, driver: Driver, upload: Upload, length: int, source: Entry
) -> PartialFile | None:
    """Return the partial file of the cursor, started in the storage; None if its server does not support parts.

    The intent is saved before the call of the storage, its token after it. A partial file of another version of
    `source`, or in another storage, is dropped.
    """
    partial = run.cursor.partial
    if partial is None or not partial.token or not _can_continue(partial, target, source):
        await drop_partial(run)
        partial = PartialFile(
            path=target.path,
            key=make_parts_key(),
            length=length,
            validator=source.etag,
            storage=remember_storage(target.mount) if isinstance(target, StoragePath) else "",
            boot=platform().read_boot_id(),
        )
        run.cursor.partial = partial
        await run.save()
        pass_checkpoint("copy.intended")
        try:
            partial.token = await driver.begin(target.path, upload, partial.key)
        except NotSupported:
            run.cursor.partial = None
            return None
        pass_checkpoint("copy.started")
        await run.save()
        pass_checkpoint("copy.ready")
    return partial


def _can_continue(partial: PartialFile, target: FilePath, source: Entry) -> bool:
    if partial.path != target.path or (source.etag and partial.validator not in ("", source.etag)):
        return False
    if is_torn(partial, target.driver):
        return False
    if isinstance(target, StagedPath):
        return True
    return partial.storage != "" and _unseal(partial.storage) == _describe(target.mount)


def is_torn(partial: PartialFile, driver: Driver) -> bool:
    """True if stored parts may have lost their bytes: they become durable with the finished file, and this computer was
    restarted since.
    """
    return driver.capabilities.sync and partial.boot not in ("", platform().read_boot_id())


async def drop_partial(run: Run[SpecT, CursorT], path: TreePath | None = None) -> None:
    """Drop the unfinished file of the cursor, if there is one; with a `path` only if the file is there."""
    partial = run.cursor.partial
    if partial is None or path not in (None, partial.path):
        return
    if partial.stored is None:
        async with _open_storage(partial.storage) as driver:
            await _abort(driver, partial)
    run.cursor.partial = None


async def _abort(driver: Driver, partial: PartialFile) -> None:
    if driver.capabilities.parts and partial.token:
        await driver.abort(TreePath(partial.path), partial.token)
    elif driver.capabilities.parts:
        await driver.abort_by_key(TreePath(partial.path), partial.key)


async def abandon_partial(run: Run[SpecT, CursorT]) -> None:
    """Drop the unfinished file of a task that ends. If it cannot be reached, the sweep drops it later."""
    partial = run.cursor.partial
    if partial is None:
        return
    if partial.stored is None and not await try_abort(partial):
        content = dump(partial)
        await staging.pin(ABANDONED)
        await staging.store(ABANDONED, token_hex(12), stream(content), Upload(len(content), time.time(), durable=True))
    run.cursor.partial = None


async def try_abort(partial: PartialFile) -> bool:
    """Drop a partial file. Return True if it is gone.

    An abort does not tell whether the storage has answered, so the storage is called for an entry first.
    """
    try:
        async with _open_storage(partial.storage) as driver:
            await driver.stat(ROOT)
            await files.find(StagedPath(driver, TreePath(partial.path)))
            await _abort(driver, partial)
    except Problem:
        return False
    return True


async def sweep_partials() -> None:
    """Drop the partial files that could not be reached when their task ended, in storages that answer now."""
    storage = await staging.driver()
    try:
        entries = await list_all(storage, TreePath(f"/{ABANDONED}"))
    except EntryNotFound:
        return
    for entry in entries:
        if entry.name == staging.PINNED:
            continue
        path = StagedPath(storage, staging.get_path(ABANDONED, entry.name))
        content = await files.read_range(path, 0, entry.size or 0)
        is_old = entry.modified < time.time() - MAX_ABANDONED_SECONDS
        if await try_abort(parse(PartialFile, content)) or is_old:
            await staging.remove(ABANDONED, entry.name)


class NumberedReceipt(NamedTuple):
    """The receipt of a part."""

    number: int
    """The number of the part, from 0."""
    text: str


def _get_folder(task_id: str) -> str:
    """Return the name in staging of a task's receipts. They are removed when the task ends, even if its other files
    stay."""
    return f"{task_id}.parts"


class PartReceipts:
    """The receipts of the parts of a file. New ones are valid after `save`, once the cursor is saved after it."""

    def __init__(self, task_id: str, cursor: Cursor, partial: PartialFile) -> None:
        self._cursor = cursor
        self._partial = partial
        self._texts: dict[int, str] = {}
        self._rows = StagedList(
            _get_folder(task_id), partial.key, partial.receipt_count, lambda row: NumberedReceipt(*row)
        )

    @classmethod
    async def load(cls, run: Run[SpecT, CursorT], partial: PartialFile) -> PartReceipts:
        """Return the valid receipts. Raise ManifestLost unless all exist."""
        receipts = cls(run.task.id, run.cursor, partial)
        while rows := await receipts._rows.read_rows(len(receipts._texts)):
            receipts._texts |= {row.number: row.text for row in rows}
        return receipts

    def __contains__(self, number: int) -> bool:
        return number in self._texts

    def __len__(self) -> int:
        return len(self._texts)

    def list(self) -> list[str]:
        """Return all receipts, in the order of the parts."""
        return [text for _, text in sorted(self._texts.items())]

    async def add(self, number: int, text: str) -> None:
        """Add the receipt of a stored part."""
        self._cursor.has_receipts = True
        self._texts[number] = text
        await self._rows.append(NumberedReceipt(number, text))

    async def save(self) -> None:
        """Store the new receipts."""
        await self._rows.flush()
        self._partial.receipt_count = self._rows.count


async def find_receipts(run: Run[SpecT, CursorT], partial: PartialFile) -> PartReceipts | None:
    """Return the receipts of a file; None if some are lost, which makes its parts useless."""
    try:
        return await PartReceipts.load(run, partial)
    except ManifestLost:
        return None


async def drop_receipts(run: Run[SpecT, CursorT]) -> None:
    """Remove the receipts of all files of a task that ends."""
    if run.cursor.has_receipts:
        await staging.clear(_get_folder(run.task.id))
