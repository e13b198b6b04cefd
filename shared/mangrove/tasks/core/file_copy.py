"""One file from one storage to another: whole or not at all, verified, continued where it was cut off."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.platform import platform
from mangrove.core.problems import Changed, Exists, NotFound, NotSupported, StorageProblem
from mangrove.drivers.base import Copies, CopiesFrom, CopyRequest, Driver, Entry, Parts, Upload, Writes
from mangrove.drivers.part_streams import StreamsParts
from mangrove.tasks.core.endpoints import Endpoint, TargetListing, have_same_bytes
from mangrove.tasks.core.part_receipts import PartReceipts, find_receipts
from mangrove.tasks.core.partials import StepEnded, begin_partial, drop_partial
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
    """`keep_existing` leaves what is at the target; else, without `overwrite`, Exists. `durable`: what is copied
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
        raise Changed("the source changed since the task began")
    try:
        return await _copy_version(run, source, target, version, listing, mode)
    except Changed:
        raise Changed(CHANGED) from None


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
            raise Exists
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


def _plan_parts(source: Driver, target: Parts, size: int) -> tuple[int, int]:
    """Bytes of a part of a file, and how many are stored side by side."""
    part, lanes = target.plan_part_copies(source) if isinstance(target, CopiesFrom) else (0, 0)
    if not part:
        part, lanes = PART, IN_FLIGHT
    return max(part // lanes, -(-size // MOST_PARTS)), lanes


async def _store(
    run: Run[SpecT, CopyCursorT], source: Endpoint, target: Endpoint, version: Entry, upload: Upload, verify: bool
) -> Stored:
    """Store a file by the cheapest means that both storages have."""
    stored = await _copy_within(source, target, version, upload)
    if stored is not None:
        return stored
    if version.size is not None and version.size > WHOLE and isinstance(target.driver, Parts):
        stored = await _store_parts(run, source, target, target.driver, upload, version)
        if stored is not None:
            return stored
    async with target.hold_name():
        return await _copy_directly(source, target, version, upload) or await _store_whole(
            source, target, version, upload, verify
        )


async def _copy_within(source: Endpoint, target: Endpoint, version: Entry, upload: Upload) -> Stored | None:
    """Let a storage that holds both ends copy; None where it cannot: too large to be done at once, or not its own."""
    if source.driver is not target.driver or not isinstance(source.driver, Copies):
        return None
    async with target.hold_name():
        try:
            await source.driver.copy(source.path, target.path, overwrite=upload.overwrite, durable=upload.durable)
        except NotSupported:
            return None
        await source.check_unchanged(version)
        return await look_at_copy(target, version)


async def _copy_directly(source: Endpoint, target: Endpoint, version: Entry, upload: Upload) -> Stored | None:
    """Let the target copy a small file from another storage; None where it cannot."""
    if version.size is None or not isinstance(target.driver, CopiesFrom):
        return None
    request = CopyRequest(
        source.path, target.path, version.size, version.modified, upload.overwrite, version.etag, upload.durable
    )
    await throttle.wait_for_copy(version.size)
    results = await target.driver.copy_from(source.driver, [request])
    if results is None:
        return None
    if results[0] is not None:
        raise results[0]
    pass_checkpoint("copy.whole")
    return await look_at_copy(target, version)


async def _store_whole(source: Endpoint, target: Endpoint, version: Entry, upload: Upload, verify: bool) -> Stored:
    """Store a file in one go."""
    if not isinstance(target.driver, Writes):
        raise NotSupported
    size, digest = 0, hashlib.md5(usedforsecurity=False)

    async def pass_on(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        nonlocal size
        async for block in body:
            size += len(block)
            if verify:
                digest.update(block)
            yield block
        await source.check_unchanged(version)  # before the target is seen: what is torn must not replace what is whole

    body: Any = throttle.limit_server_download(await source.driver.read(source.path, 0, None, version))
    async with aclosing(body):
        entry = await target.driver.write(target.path, pass_on(throttle.limit_server_upload(body)), upload)
    pass_checkpoint("copy.whole")
    expected = size if version.size is None else version.size
    return Stored(SourceVersion.of(entry), expected, md5=digest.hexdigest() if verify else "")


async def _store_parts(
    run: Run[SpecT, CopyCursorT], source: Endpoint, target: Endpoint, driver: Parts, upload: Upload, version: Entry
) -> Stored | None:
    """Store part by part; receipts tell which are there, so that the next worker begins at the next. None: this server
    takes no parts."""
    assert version.size is not None
    size = version.size
    length, lanes = _plan_parts(source.driver, driver, size)
    begun = await _begin_parts(run, target, driver, upload, length, version)
    if begun is None:
        return None
    partial, receipts = begun
    before = run.cursor.bytes_done
    missing = deque(index for index in range(-(-size // partial.length)) if index not in receipts)
    saving = asyncio.Lock()  # one write at a time: an older one must not arrive after a newer one
    saved = time.monotonic()

    async def store_next() -> None:
        nonlocal saved
        try:
            while missing:
                index, began = missing.popleft(), time.monotonic()
                receipt = await _store_part(source, target, driver, partial, index, version)
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
    await run.save()  # once the file is made of them, its parts are gone
    pass_checkpoint("copy.parts")
    await source.check_unchanged(version)
    async with target.hold_name():
        return await _finish_parts(source, target, driver, upload, partial, receipts.list())


def is_due(saved: float) -> bool:
    """True if progress is to be written that was last written at `saved` (monotonic)."""
    return time.monotonic() - saved >= platform().progress_interval_seconds


async def _begin_parts(
    run: Run[SpecT, CopyCursorT], target: Endpoint, driver: Parts, upload: Upload, length: int, version: Entry
) -> tuple[PartialFile, PartReceipts] | None:
    """The partial file and the receipts that there are; begun anew where some are lost. None: as in `begin_partial`."""
    while (partial := await begin_partial(run, target, driver, upload, length, version)) is not None:
        receipts = await find_receipts(run, partial)
        if receipts is not None:
            return partial, receipts
        await drop_partial(run)
    return None


async def _finish_parts(
    source: Endpoint,
    target: Endpoint,
    driver: Parts,
    upload: Upload,
    partial: PartialFile,
    receipts: Sequence[str],
) -> Stored:
    """Make the file of its parts, unless a worker did that and died before it could say so."""
    by_storage = isinstance(driver, CopiesFrom) and driver.plan_part_copies(source.driver)[0] > 0
    compared = False
    try:
        entry = await driver.finish(target.path, partial.token, receipts, upload)
    except (NotFound, Exists) as problem:
        if not await have_same_bytes(source, target):
            if isinstance(problem, Exists):
                raise
            raise StorageProblem("the parts stored so far are gone") from None
        if isinstance(problem, Exists):
            await driver.abort(target.path, partial.token)
        await _sync(target, upload.durable)
        entry, compared = await target.driver.stat(target.path), True
    pass_checkpoint("copy.finished")
    stored = Stored(SourceVersion.of(entry), upload.size, by_storage, compared=compared)
    partial.stored = stored.version
    return stored


async def _store_part(
    source: Endpoint, target: Endpoint, driver: Parts, partial: PartialFile, index: int, version: Entry
) -> str:
    """Store one part; its receipt."""
    offset = index * partial.length
    length, number = min(partial.length, (version.size or 0) - offset), index + 1
    await throttle.wait_for_copy(length)
    if isinstance(driver, CopiesFrom) and driver.plan_part_copies(source.driver)[0]:
        await source.check_unchanged(version)
        receipt = await driver.copy_part_from(
            source.driver, source.path, target.path, partial.token, number, offset, length
        )
        await source.check_unchanged(version)
        return receipt
    if isinstance(driver, StreamsParts):
        body: Any = await source.driver.read(source.path, offset, length, version)
        async with aclosing(body):
            return await driver.stream_part(target.path, partial.token, number, offset, body)
    content = await source.read_range(offset, length, version)
    # a part that arrives after all are dropped would stay for ever
    return await finish_despite_cancel(driver.write_part(target.path, partial.token, number, offset, content))
