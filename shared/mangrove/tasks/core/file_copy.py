"""One file from one storage to another: whole or not at all, verified, continued where it was cut off."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.platform import platform
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import CopyRequest, Driver, Entry, Upload
from mangrove.tasks.core.endpoints import Endpoint, TargetListing, have_same_bytes
from mangrove.tasks.core.partials import PartReceipts, StepEnded, begin_partial, drop_partial, find_receipts
from mangrove.tasks.core.specs import CopyCursorT, PartialFile, SourceVersion, SpecT
from mangrove.tasks.core.steps import Run
from mangrove.tasks.core.verification import Stored, check_copy, look_at_copy

PART = 32 << 20  # bytes of a file that are under way at once: what a killed worker may leave to be done again
IN_FLIGHT = 3  # pieces of a part, which are stored side by side
MOST_PARTS = 10_000  # that S3 takes
WHOLE = 8 << 20  # bytes; a smaller file is stored in one go: one call to S3, so that a killed worker leaves no parts
CHANGED = "the source changed while it was copied"

Result = TypeVar("Result")


class CopyMode(NamedTuple):
    """`keep_existing` leaves what is at the target; else, without `overwrite`, EntryExists. `durable`: what is copied
    survives a power cut. `verify`: the target is read once more where nothing else proves that it holds the same bytes.
    """

    overwrite: bool
    keep_existing: bool = False
    durable: bool = False
    verify: bool = False


class Copied(NamedTuple):
    """A file that is at the target. `version` is the source that was copied; `stored` what was made of it, None when it
    was there before. Not `compared`: something else may be there, which was left."""

    version: Entry
    stored: Stored | None
    compared: bool = True


async def copy_file(
    run: Run[SpecT, CopyCursorT],
    source: Endpoint,
    target: Endpoint,
    file: SourceVersion,
    listing: TargetListing,
    mode: CopyMode,
) -> Copied:
    """Copy a file and verify it; every byte is of the version that the source shows here.

    What is at the target with the same bytes counts as copied: a worker that died may have stored it already.
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
    source: Endpoint,
    target: Endpoint,
    version: Entry,
    listing: TargetListing,
    mode: CopyMode,
) -> Copied:
    partial = run.cursor.partial
    if partial is not None and partial.path != target.path:
        partial = None
    if partial is not None and partial.stored is not None:
        stored = Stored(partial.stored, version.size)
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


async def _sync(target: Endpoint, durable: bool) -> None:
    """Make a file durable that another worker, or somebody else, has put there."""
    if durable:
        await target.sync()


async def gather_all(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """The answers of all; the first failure, but not before the others have ended."""
    running = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*running, return_exceptions=True)
    return [one.result() for one in running]


def is_due(saved: float) -> bool:
    """True if progress is to be written, that was last written at `saved` (monotonic): after each part where a killed
    worker may not leave more to be done again than what is under way."""
    return time.monotonic() - saved >= platform().progress_interval_seconds


@dataclass(slots=True)
class FileCopy(Generic[SpecT, CopyCursorT]):
    """A file that is to be copied."""

    run: Run[SpecT, CopyCursorT]
    source: Endpoint
    target: Endpoint
    version: Entry
    """The source as it is now."""
    upload: Upload
    verify: bool
    held: AsyncExitStack
    """It ends after the last strategy."""
    is_held: bool = False

    async def lock_name(self) -> None:
        """Keep others from the name of the target until the file is copied, also for the strategies that follow."""
        if not self.is_held:
            await self.held.enter_async_context(self.target.lock_name())
            self.is_held = True

    @property
    def is_large(self) -> bool:
        """True if the file goes in parts to a storage that takes them."""
        return (self.version.size or 0) > WHOLE and self.target.driver.capabilities.parts


class CopyStrategy(Protocol):
    """A way to copy a file."""

    async def copy(self, file: FileCopy[SpecT, CopyCursorT]) -> Stored | None:
        """Copy the file; None if these storages cannot do it this way."""


class ServerCopy:
    """The storage copies by itself: within itself, or a small file from another storage that it knows."""

    async def copy(self, file: FileCopy[SpecT, CopyCursorT]) -> Stored | None:
        """Copy the file; None if it is too large to be done at once, or the storage cannot."""
        if file.source.driver is file.target.driver and file.source.driver.capabilities.copy:
            stored = await self._copy_within(file, file.source.driver)
            if stored is not None:
                return stored
        if file.is_large or file.version.size is None or not file.target.driver.capabilities.copy_from:
            return None
        return await self._copy_from(file, file.target.driver, file.version.size)

    async def _copy_within(self, file: FileCopy[SpecT, CopyCursorT], driver: Driver) -> Stored | None:
        source, target, upload = file.source, file.target, file.upload
        async with target.lock_name():
            try:
                await driver.copy(source.path, target.path, overwrite=upload.overwrite, durable=upload.durable)
            except NotSupported:
                return None
            await source.check_unchanged(file.version)
            return await look_at_copy(target, file.version)

    async def _copy_from(self, file: FileCopy[SpecT, CopyCursorT], driver: Driver, size: int) -> Stored | None:
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


class PartCopy:
    """A large file goes part by part; receipts tell which are there, so that the next worker begins at the next."""

    async def copy(self, file: FileCopy[SpecT, CopyCursorT]) -> Stored | None:
        """Copy the file; None if the target does not take parts."""
        driver = file.target.driver
        if not file.is_large or not driver.capabilities.parts:
            return None
        size = file.version.size or 0
        length, lanes = self._plan(file.source.driver, driver, size)
        begun = await self._begin(file, driver, length)
        if begun is None:
            return None
        partial, receipts = begun
        await self._store_missing(file, driver, partial, receipts, lanes)
        await file.run.save()  # once the file is made of them, its parts are gone
        pass_checkpoint("copy.parts")
        await file.source.check_unchanged(file.version)
        async with file.target.lock_name():
            return await self._finish(file, driver, partial, receipts.list())

    def _plan(self, source: Driver, target: Driver, size: int) -> tuple[int, int]:
        """Return the bytes of a part, and how many are stored side by side."""
        part, lanes = target.plan_part_copies(source)
        if not part:
            part, lanes = PART, IN_FLIGHT
        return max(part // lanes, -(-size // MOST_PARTS)), lanes

    async def _begin(
        self, file: FileCopy[SpecT, CopyCursorT], driver: Driver, length: int
    ) -> tuple[PartialFile, PartReceipts] | None:
        """Return the partial file and the receipts that there are; it is begun anew if some are lost."""
        run = file.run
        while (partial := await begin_partial(run, file.target, driver, file.upload, length, file.version)) is not None:
            receipts = await find_receipts(run, partial)
            if receipts is not None:
                return partial, receipts
            await drop_partial(run)
        return None

    async def _store_missing(
        self,
        file: FileCopy[SpecT, CopyCursorT],
        driver: Driver,
        partial: PartialFile,
        receipts: PartReceipts,
        lanes: int,
    ) -> None:
        """Store the parts without a receipt. Raise StepEnded if the time is over before all are there."""
        run, size, before = file.run, file.version.size or 0, file.run.cursor.bytes_done
        missing = deque(index for index in range(-(-size // partial.length)) if index not in receipts)
        saving = asyncio.Lock()  # one write at a time: an older one must not arrive after a newer one
        saved = time.monotonic()

        async def store_next() -> None:
            nonlocal saved
            try:
                while missing:
                    index, began = missing.popleft(), time.monotonic()
                    receipt = await self._store_part(file, driver, partial, index)
                    pass_checkpoint("copy.part")
                    async with saving:
                        await receipts.add(index, receipt)
                        if is_due(saved):
                            run.show_progress(before + min(len(receipts) * partial.length, size))
                            await receipts.save()
                            await run.save()
                            saved = time.monotonic()
                    if not run.has_time_for(time.monotonic() - began):
                        return
            except BaseException:
                missing.clear()
                raise

        try:
            await gather_all(store_next() for _ in range(lanes))
            if missing:
                raise StepEnded
        finally:
            await receipts.save()

    async def _store_part(
        self, file: FileCopy[SpecT, CopyCursorT], driver: Driver, partial: PartialFile, index: int
    ) -> str:
        """Store one part. Return its receipt."""
        source, path, version = file.source, file.target.path, file.version
        offset = index * partial.length
        length, number = min(partial.length, (version.size or 0) - offset), index + 1
        await throttle.wait_for_copy(length)
        if driver.plan_part_copies(source.driver)[0]:
            await source.check_unchanged(version)
            receipt = await driver.copy_part_from(
                source.driver, source.path, path, partial.token, number, offset, length
            )
            await source.check_unchanged(version)
            return receipt
        if driver.capabilities.stream_part:
            body: Any = await source.driver.read(source.path, offset, length, version)
            async with aclosing(body):
                return await driver.stream_part(path, partial.token, number, offset, body)
        content = await source.read_range(offset, length, version)
        # a part that arrives after all are dropped would stay for ever
        return await finish_despite_cancel(driver.write_part(path, partial.token, number, offset, content))

    async def _finish(
        self, file: FileCopy[SpecT, CopyCursorT], driver: Driver, partial: PartialFile, receipts: Sequence[str]
    ) -> Stored:
        """Make the file of its parts, unless a worker did that and died before it could say so."""
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
        stored = Stored(SourceVersion.of(entry), upload.size, by_storage, compared=compared)
        partial.stored = stored.version
        return stored


class StreamCopy:
    """The file goes through this service in one go."""

    async def copy(self, file: FileCopy[SpecT, CopyCursorT]) -> Stored:
        """Copy the file. Raise NotSupported if the target does not take files."""
        source, target, version = file.source, file.target, file.version
        if not target.driver.capabilities.write:
            raise NotSupported
        size, digest = 0, hashlib.md5(usedforsecurity=False)

        async def pass_on(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            nonlocal size
            async for block in body:
                size += len(block)
                if file.verify:
                    digest.update(block)
                yield block
            await source.check_unchanged(version)  # before the target is seen: what is torn must not replace anything

        await file.lock_name()
        body: Any = throttle.limit_server_download(await source.driver.read(source.path, 0, None, version))
        async with aclosing(body):
            entry = await target.driver.write(target.path, pass_on(throttle.limit_server_upload(body)), file.upload)
        pass_checkpoint("copy.whole")
        expected = size if version.size is None else version.size
        return Stored(SourceVersion.of(entry), expected, md5=digest.hexdigest() if file.verify else "")


STRATEGIES: tuple[CopyStrategy, ...] = (ServerCopy(), PartCopy(), StreamCopy())  # the cheapest first


async def _store(
    run: Run[SpecT, CopyCursorT], source: Endpoint, target: Endpoint, version: Entry, upload: Upload, verify: bool
) -> Stored:
    """Copy a file in the first way that both storages have."""
    async with AsyncExitStack() as held:
        file = FileCopy(run, source, target, version, upload, verify, held)
        for strategy in STRATEGIES:
            stored = await strategy.copy(file)
            if stored is not None:
                return stored
    raise NotSupported
