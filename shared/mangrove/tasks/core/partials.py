"""Files that are stored in parts: begun, gone on with, and dropped in whichever storage they are.

What a task has begun is dropped when it ends, also where the storage was deleted or disabled meanwhile: its options are
kept, sealed, beside the parts. What cannot be reached even so is written down in staging, and the sweep drops it later.
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
from mangrove.tasks.core import staging
from mangrove.tasks.core.endpoints import Endpoint
from mangrove.tasks.core.manifest import Manifest, ManifestLost
from mangrove.tasks.core.specs import Cursor, CursorT, PartialFile, SpecT
from mangrove.tasks.core.steps import Run
from mangrove.tree import mounts
from mangrove.tree.mounts import Mount

ABANDONED = "abandoned"  # the folder of staging with what the sweep is to drop
GIVE_UP_SECONDS = 30 * 24 * 3600.0
START_SECONDS = 30.0
PLACE = b""  # that no sealed attribute of a record has


class StepEnded(Exception):
    """The step is over and the file is not: the next one goes on with it."""


@dataclass(kw_only=True)
class StorageRecord:
    """What is needed to reach a storage without its record; `addition` as there."""

    id: int
    driver: str
    addition: str


def _describe(mount: Mount) -> StorageRecord:
    storage = mount.storage
    return StorageRecord(id=storage.id, driver=storage.driver, addition=storage.addition)


def remember_storage(mount: Mount | None) -> str:
    """How to reach a storage later, sealed; "" for staging."""
    return b64encode(encrypt(dump(_describe(mount)).decode(), PLACE)).decode() if mount is not None else ""


def _unseal(storage: str) -> StorageRecord:
    return parse(StorageRecord, decrypt(b64decode(storage), PLACE))


@asynccontextmanager
async def _open_storage(storage: str) -> AsyncIterator[Driver]:
    """What `remember_storage` saw: the mounted storage, or one started for this alone when that is no more the same."""
    if not storage:
        yield await staging.driver()
        return
    known = _unseal(storage)
    for mount in (await mounts.ready()).mounts:
        if _describe(mount) == known:
            yield await mount.get_driver()
            return
    kind = registry.load(known.driver)
    driver = kind(kind.Options.parse(known.addition), DriverContext())
    try:
        async with asyncio.timeout(START_SECONDS):
            await driver.start()
        yield driver
    except TimeoutError:
        raise Unreachable from None
    finally:
        await driver.stop()


async def begin_partial(
    run: Run[SpecT, CursorT], target: Endpoint, driver: Driver, upload: Upload, length: int, source: Entry
) -> PartialFile | None:
    """The partial file of the record, begun at the storage; its intent is saved before, its token after. One that was
    begun of another version of `source`, or in another storage, is dropped. None: this server takes no parts."""
    partial = run.cursor.partial
    if partial is None or not partial.token or not _goes_on(partial, target, source):
        await drop_partial(run)
        key, storage = make_parts_key(), remember_storage(target.mount)
        partial = PartialFile(
            path=target.path,
            key=key,
            length=length,
            validator=source.etag,
            storage=storage,
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


def _goes_on(partial: PartialFile, target: Endpoint, source: Entry) -> bool:
    if partial.path != target.path or (source.etag and partial.validator not in ("", source.etag)):
        return False
    if is_torn(partial, target.driver):
        return False
    return target.mount is None or (partial.storage != "" and _unseal(partial.storage) == _describe(target.mount))


def is_torn(partial: PartialFile, driver: Driver) -> bool:
    """Whether parts that were stored may have lost their bytes: they are durable when the file is finished, and this
    machine was started again since."""
    return driver.capabilities.sync and partial.boot not in ("", platform().read_boot_id())


async def drop_partial(run: Run[SpecT, CursorT], path: TreePath | None = None) -> None:
    """Forget the parts of the file that was not finished, if there is one and, when `path` is given, it is that."""
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
    """As `drop_partial`, of a task that ends; what cannot be reached now is left to the sweep."""
    partial = run.cursor.partial
    if partial is None:
        return
    if partial.stored is None and not await try_abort(partial):
        content = dump(partial)
        await staging.pin(ABANDONED)
        await staging.store(ABANDONED, token_hex(12), stream(content), Upload(len(content), time.time(), durable=True))
    run.cursor.partial = None


async def try_abort(partial: PartialFile) -> bool:
    """Whether the parts are gone. An abort is silent about a storage that does not answer, so that is asked first."""
    try:
        async with _open_storage(partial.storage) as driver:
            await driver.stat(ROOT)
            await Endpoint(driver, TreePath(partial.path)).find()
            await _abort(driver, partial)
    except Problem:
        return False
    return True


async def sweep_partials() -> None:
    """Drop the parts that could not be reached when their task ended, in storages that answer by now."""
    storage = await staging.driver()
    try:
        found = await list_all(storage, TreePath(f"/{ABANDONED}"))
    except EntryNotFound:
        return
    for entry in found:
        if entry.name == staging.PINNED:
            continue
        content = await Endpoint(storage, staging.get_path(ABANDONED, entry.name)).read_range(0, entry.size or 0)
        is_old = entry.modified < time.time() - GIVE_UP_SECONDS
        if await try_abort(parse(PartialFile, content)) or is_old:
            await staging.remove(ABANDONED, entry.name)


class NumberedReceipt(NamedTuple):
    """The receipt of a part; numbers begin with 0."""

    number: int
    text: str


def _get_folder(task_id: str) -> str:
    """The name in staging under which a task keeps receipts: they go when it ends, whatever else stays."""
    return f"{task_id}.parts"


class PartReceipts:
    """The receipts of one file. What was added counts with `save`, once the cursor is saved after it."""

    def __init__(self, task_id: str, cursor: Cursor, partial: PartialFile) -> None:
        self._cursor = cursor
        self._partial = partial
        self._found: dict[int, str] = {}
        self._rows = Manifest(
            _get_folder(task_id), partial.key, partial.receipt_count, lambda row: NumberedReceipt(*row)
        )

    @classmethod
    async def load(cls, run: Run[SpecT, CursorT], partial: PartialFile) -> PartReceipts:
        """Those that count; ManifestLost when not all of them are there."""
        made = cls(run.task.id, run.cursor, partial)
        while rows := await made._rows.read_rows(len(made._found)):
            made._found |= {row.number: row.text for row in rows}
        return made

    def __contains__(self, number: int) -> bool:
        return number in self._found

    def __len__(self) -> int:
        return len(self._found)

    def list(self) -> list[str]:
        """All, in the order of the parts."""
        return [text for _, text in sorted(self._found.items())]

    async def add(self, number: int, text: str) -> None:
        """Add the receipt of a part that was stored."""
        self._cursor.has_receipts = True
        self._found[number] = text
        await self._rows.append(NumberedReceipt(number, text))

    async def save(self) -> None:
        """Store what was added."""
        await self._rows.flush()
        self._partial.receipt_count = self._rows.count


async def find_receipts(run: Run[SpecT, CursorT], partial: PartialFile) -> PartReceipts | None:
    """The receipts of a file; None when some of them are lost, so that its parts are of no use."""
    try:
        return await PartReceipts.load(run, partial)
    except ManifestLost:
        return None


async def drop_receipts(run: Run[SpecT, CursorT]) -> None:
    """Remove the receipts of all files of a task, when nothing is gone on with any more."""
    if run.cursor.has_receipts:
        await staging.clear(_get_folder(run.task.id))
