"""Copy a file to a path of another storage: completely or not at all, verified, and continued after an interruption."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from mangrove.configuration import throttle
from mangrove.core import metering
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel, gather_all
from mangrove.core.platform import platform
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import CopyRequest, Driver, Entry, Upload
from mangrove.tasks.core import files
from mangrove.tasks.core.files import FilePath, TargetListing, have_same_bytes, lock_names
from mangrove.tasks.core.model import CopyCursorT, PartialFile, SourceVersion, SpecT
from mangrove.tasks.core.partials import PartReceipts, StepEnded, begin_partial, drop_partial, find_receipts
from mangrove.tasks.core.steps import Run
from mangrove.tasks.core.verification import StoredCopy, check_copy, look_at_copy

IN_FLIGHT_BYTES = 32 << 20  # of a file: the work that a killed worker may have to repeat
PART_CONCURRENCY = 3
MAX_PARTS = 10_000  # the maximum of S3
MAX_WHOLE_BYTES = 8 << 20  # of a file that is stored in one request: a killed worker leaves no parts of it
CHANGED = "the source changed while it was copied"


class CopyMode(NamedTuple):
    """The options of a copy."""

    overwrite: bool
    """Replace a file at the target; else raise EntryExists."""
    keep_existing: bool = False
    """Keep the file at the target."""
    durable: bool = False
    """True if the copy has to survive a power cut."""
    verify: bool = False
    """Read the target back if nothing else proves that it has the bytes of the source."""


class Copied(NamedTuple):
    """A file that is at the target."""

    version: Entry
    """The source that was copied."""
    stored: StoredCopy | None
    """The file that was stored; None if the target existed before."""
    compared: bool = True
    """False if another file may be there, which was kept."""


async def copy_file(
    run: Run[SpecT, CopyCursorT],
    source: FilePath,
    target: FilePath,
    file: SourceVersion,
    listing: TargetListing,
    mode: CopyMode,
) -> Copied:
    """Copy a file and verify it; every byte is of the version that the source shows here.

    A file with the same bytes at the target counts as copied: a worker that died may have stored it.
    """
    version = await source.driver.stat(source.path)
    if not file.matches(version):
        raise EntryChanged("the source changed since the task began")
    try:
        return await _copy_version(run, source, target, version, listing, mode)
    except EntryChanged:
        raise EntryChanged(CHANGED) from None


async def _copy_version(
    run: Run[SpecT, CopyCursorT],
    source: FilePath,
    target: FilePath,
    version: Entry,
    listing: TargetListing,
    mode: CopyMode,
) -> Copied:
    partial = run.cursor.partial
    if partial is not None and partial.path != target.path:
        partial = None
    if partial is not None and partial.stored is not None:
        stored = StoredCopy(partial.stored, version.size)
    else:
        if partial is None and not mode.overwrite and await listing.find(target) is not None:
            if mode.keep_existing:
                return Copied(version, None, False)
            if await have_same_bytes(source, target):
                await _sync(target, mode.durable)
                return Copied(version, None)
            raise EntryExists
        upload = Upload(version.size, version.modified, overwrite=mode.overwrite, durable=mode.durable)
        stored = await _store(run, source, target, version, upload, mode.verify)
    await check_copy(run, source, version, target, stored, verify=mode.verify)
    if run.cursor.partial is not None and run.cursor.partial.path == target.path:
        run.cursor.partial = None
    return Copied(version, stored)


async def _sync(target: FilePath, durable: bool) -> None:
    """Make a file durable that another worker or another program has stored."""
    if durable:
        await files.sync(target)


def is_save_due(saved: float) -> bool:
    """True if the progress of a file, last written at `saved` (monotonic), is due to be written."""
    return time.monotonic() - saved >= platform().progress_interval_seconds


@dataclass(slots=True)
class FileCopy(Generic[SpecT, CopyCursorT]):
    """A file that is being copied."""

    run: Run[SpecT, CopyCursorT]
    source: FilePath
    target: FilePath
    version: Entry
    """The source as it is now."""
    upload: Upload
    verify: bool
    stack: AsyncExitStack
    """The end of the name lock, after the last strategy."""
    is_held: bool = False

    async def lock_name(self) -> None:
        """Lock the name of the target until the file is copied, also for the strategies that follow."""
        if not self.is_held:
            await self.stack.enter_async_context(lock_names([self.target]))
            self.is_held = True

    @property
    def is_large(self) -> bool:
        """True if the file is stored in parts."""
        return (self.version.size or 0) > MAX_WHOLE_BYTES and self.target.driver.capabilities.parts


async def _store(
    run: Run[SpecT, CopyCursorT], source: FilePath, target: FilePath, version: Entry, upload: Upload, verify: bool
) -> StoredCopy:
    """Copy a file with the first strategy that both storages support, the cheapest first."""
    async with AsyncExitStack() as stack:
        file = FileCopy(run, source, target, version, upload, verify, stack)
        for strategy in (_copy_on_server, _copy_in_parts, _copy_as_stream):
            stored = await strategy(file)
            if stored is not None:
                return stored
    raise NotSupported


async def _copy_on_server(file: FileCopy[SpecT, CopyCursorT]) -> StoredCopy | None:
    """Let the storage copy the file itself: within itself, or a small file from another storage that it can reach.

    Return None if it cannot.
    """
    source, target = file.source.driver, file.target.driver
    if source is target and source.capabilities.copy:
        stored = await _copy_within(file, source)
        if stored is not None:
            return stored
    if file.is_large or file.version.size is None or not target.capabilities.copy_from:
        return None
    return await _copy_from(file, target, file.version.size)


async def _copy_within(file: FileCopy[SpecT, CopyCursorT], driver: Driver) -> StoredCopy | None:
    source, target, upload = file.source, file.target, file.upload
    async with lock_names([target]):
        try:
            await driver.copy(source.path, target.path, overwrite=upload.overwrite, durable=upload.durable)
        except NotSupported:
            return None
        await files.check_unchanged(source, file.version)
        return await look_at_copy(target, file.version)


async def _copy_from(file: FileCopy[SpecT, CopyCursorT], driver: Driver, size: int) -> StoredCopy | None:
    source, target, upload, version = file.source, file.target, file.upload, file.version
    request = CopyRequest(
        source.path, target.path, size, version.modified, upload.overwrite, version.etag, upload.durable
    )
    await file.lock_name()
    await throttle.wait_for_copy(size)
    results = await driver.copy_from(source.driver, [request])
    if results is None:
        return None
    if results[0] is not None:
        raise results[0]
    pass_checkpoint("copy.whole")
    return await look_at_copy(target, version)


async def _copy_in_parts(file: FileCopy[SpecT, CopyCursorT]) -> StoredCopy | None:
    """Copy a large file part by part. Receipts record the stored parts, so that the next worker continues there.

    Return None if the target does not support parts.
    """
    driver = file.target.driver
    if not file.is_large or not driver.capabilities.parts:
        return None
    length, concurrency = _plan_parts(file.source.driver, driver, file.version.size or 0)
    begun = await _begin_parts(file, driver, length)
    if begun is None:
        return None
    partial, receipts = begun
    await _store_missing(file, driver, partial, receipts, concurrency)
    await file.run.save()  # once the file is assembled, its parts are gone
    pass_checkpoint("copy.parts")
    await files.check_unchanged(file.source, file.version)
    async with lock_names([file.target]):
        return await _finish_parts(file, driver, partial, receipts.list())


def _plan_parts(source: Driver, target: Driver, size: int) -> tuple[int, int]:
    """Return the size of a part in bytes, and the number of parts that are stored concurrently."""
    in_flight, concurrency = target.plan_part_copies(source)
    if not in_flight:
        in_flight, concurrency = IN_FLIGHT_BYTES, PART_CONCURRENCY
    return max(in_flight // concurrency, -(-size // MAX_PARTS)), concurrency


async def _begin_parts(
    file: FileCopy[SpecT, CopyCursorT], driver: Driver, length: int
) -> tuple[PartialFile, PartReceipts] | None:
    """Return the partial file and its receipts. If its receipts are lost, it is started again."""
    run = file.run
    while (partial := await begin_partial(run, file.target, driver, file.upload, length, file.version)) is not None:
        receipts = await find_receipts(run, partial)
        if receipts is not None:
            return partial, receipts
        await drop_partial(run)
    return None


async def _store_missing(
    file: FileCopy[SpecT, CopyCursorT], driver: Driver, partial: PartialFile, receipts: PartReceipts, concurrency: int
) -> None:
    """Store the parts without a receipt. Raise StepEnded if the time is over before all are stored."""
    run, size, before = file.run, file.version.size or 0, file.run.cursor.bytes_done
    missing = deque(index for index in range(-(-size // partial.length)) if index not in receipts)
    saving = asyncio.Lock()  # an older write must not arrive after a newer one
    saved = time.monotonic()

    async def store_next() -> None:
        nonlocal saved
        try:
            while missing:
                index, began = missing.popleft(), time.monotonic()
                with run.meter(partial.length) as meter:
                    receipt = await _store_part(file, driver, partial, index)
                    pass_checkpoint("copy.part")
                    async with saving:
                        await receipts.add(index, receipt)
                        meter.clear()
                        run.show_progress(before + min(len(receipts) * partial.length, size))
                        if is_save_due(saved):
                            await receipts.save()
                            await run.save()
                            saved = time.monotonic()
                if not run.has_time_for(time.monotonic() - began):
                    return
        except BaseException:
            missing.clear()
            raise

    try:
        await gather_all(store_next() for _ in range(concurrency))
        if missing:
            raise StepEnded
    finally:
        await receipts.save()


async def _store_part(file: FileCopy[SpecT, CopyCursorT], driver: Driver, partial: PartialFile, index: int) -> str:
    """Store a part. Return its receipt."""
    source, path, version = file.source, file.target.path, file.version
    offset = index * partial.length
    length, number = min(partial.length, (version.size or 0) - offset), index + 1
    await throttle.wait_for_copy(length)
    if driver.plan_part_copies(source.driver)[0]:
        await files.check_unchanged(source, version)
        receipt = await driver.copy_part_from(source.driver, source.path, path, partial.token, number, offset, length)
        await files.check_unchanged(source, version)
        return receipt
    if driver.capabilities.stream_part:
        body: Any = await source.driver.read(source.path, offset, length, version)
        async with aclosing(body):
            return await driver.stream_part(path, partial.token, number, offset, _count_bytes(body))
    content = await files.read_range(source, offset, length, version)
    # a part that arrives after all are dropped would stay for ever
    return await finish_despite_cancel(driver.write_part(path, partial.token, number, offset, content))


async def _count_bytes(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the blocks, and count those that were taken."""
    meter = metering.get_meter()
    async for block in body:
        yield block
        meter.add(len(block))


async def _finish_parts(
    file: FileCopy[SpecT, CopyCursorT], driver: Driver, partial: PartialFile, receipts: Sequence[str]
) -> StoredCopy:
    """Assemble the file from its parts, unless a worker that died has done so."""
    source, target, upload = file.source, file.target, file.upload
    by_storage = driver.plan_part_copies(source.driver)[0] > 0
    compared = False
    try:
        entry = await driver.finish(target.path, partial.token, receipts, upload)
    except (EntryNotFound, EntryExists) as problem:
        if not await have_same_bytes(source, target):
            if isinstance(problem, EntryExists):
                raise
            raise StorageProblem("the parts stored so far are gone") from None
        if isinstance(problem, EntryExists):
            await driver.abort(target.path, partial.token)
        await _sync(target, upload.durable)
        entry, compared = await target.driver.stat(target.path), True
    pass_checkpoint("copy.finished")
    stored = StoredCopy(SourceVersion.of(entry), upload.size, by_storage, compared=compared)
    partial.stored = stored.version
    return stored


async def _copy_as_stream(file: FileCopy[SpecT, CopyCursorT]) -> StoredCopy | None:
    """Read and write the file in one pass. Return None if the target does not support files of this size."""
    source, target, version = file.source, file.target, file.version
    if not target.driver.capabilities.write:
        return None
    size, digest, meter = 0, hashlib.md5(usedforsecurity=False), metering.get_meter()

    async def pass_on(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        nonlocal size
        async for block in body:
            size += len(block)
            if file.verify:
                digest.update(block)
            yield block
            meter.add(len(block))
        # before the target is visible: a partial file must not replace anything
        await files.check_unchanged(source, version)

    await file.lock_name()
    body: Any = throttle.limit_server_download(await source.driver.read(source.path, 0, None, version))
    async with aclosing(body):
        entry = await target.driver.write(target.path, pass_on(throttle.limit_server_upload(body)), file.upload)
    pass_checkpoint("copy.whole")
    expected_size = size if version.size is None else version.size
    return StoredCopy(SourceVersion.of(entry), expected_size, md5=digest.hexdigest() if file.verify else "")
