"""One file from one storage to another: whole or not at all, verified, continued where it was cut off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

from mangrove.checkpoints import pass_checkpoint
from mangrove.concurrency import finish_despite_cancel
from mangrove.drivers.base import (
    Checksums,
    Copies,
    CopiesFrom,
    CopyRequest,
    Driver,
    Entry,
    Parts,
    Removes,
    Upload,
    Writes,
    make_parts_key,
)
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem
from mangrove.tasks.endpoints import Endpoint, TargetListing, have_same_bytes
from mangrove.tasks.specs import CopyCursorT, CursorT, PartialFile, SourceVersion, SpecT
from mangrove.tasks.steps import Run

PART = 32 << 20  # bytes of a file that are under way at once: what a killed worker may leave to be done again
IN_FLIGHT = 3  # pieces of a part, which are stored side by side
MOST_PARTS = 7_500  # the record names each, and holds 400 KB
WHOLE = 8 << 20  # bytes; a smaller file is stored in one go: one call to S3, so that a killed worker leaves no parts

Result = TypeVar("Result")


class OutOfTime(Exception):
    """The slice is over and the file is not: the next one goes on with it."""


async def copy_file(
    run: Run[SpecT, CopyCursorT],
    source: Endpoint,
    target: Endpoint,
    file: SourceVersion,
    listing: TargetListing,
    *,
    overwrite: bool,
    keep_existing: bool,
) -> bool:
    """Copy a file and verify it. `keep_existing` leaves what is at the target; else, without `overwrite`, Exists.

    What is there with the same bytes counts as copied: a worker that died may have stored it already. False: something
    was left there and not compared with the source.
    """
    if not file.matches(await source.driver.stat(source.path)):
        raise StorageProblem("the source changed since the task began")
    partial = run.cursor.partial
    existing = await listing.find(target)
    if existing is not None and not overwrite and (partial is None or partial.path != target.path):
        if keep_existing:
            return False
        if await have_same_bytes(source, target):
            return True
        raise Exists
    upload = Upload(file.size, file.modified, exclusive=not overwrite)
    entry, size = await _store(run, source, target, file, upload)
    if entry.size is not None and size is not None and entry.size != size:
        raise StorageProblem(f"the target has {entry.size} bytes instead of {size}")
    try:
        await _compare_checksums(source, target)
    except StorageProblem:
        await _withdraw(target, entry)
        raise
    return True


async def _withdraw(target: Endpoint, entry: Entry) -> None:
    """Remove what was stored and is not the source, unless it is another file by now."""
    if SourceVersion.of(entry).matches(await target.find()) and isinstance(target.driver, Removes):
        await target.driver.remove(target.path)


async def _compare_checksums(source: Endpoint, target: Endpoint) -> None:
    """Refuse when both storages know checksums of the same kind and two of them differ."""
    if not (isinstance(source.driver, Checksums) and isinstance(target.driver, Checksums)):
        return
    one, other = await source.driver.get_checksums(source.path), await target.driver.get_checksums(target.path)
    if any(one[kind] != other[kind] for kind in one.keys() & other.keys()):
        raise StorageProblem("the target's checksum differs from the source's")


async def gather_all(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """The answers of all; the first failure, but not before the others have ended."""
    running = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*running, return_exceptions=True)
    return [one.result() for one in running]


async def _check_unchanged(source: Endpoint, file: SourceVersion) -> None:
    """Refuse a source that changed; after all bytes are read and before the target is seen: what is torn must not
    replace what is whole."""
    if not file.matches(await source.driver.stat(source.path)):
        raise StorageProblem("the source changed while it was copied")


def _plan_parts(source: Driver, target: Parts, size: int) -> tuple[int, int]:
    """Bytes of a part of a file, and how many are stored side by side."""
    part, lanes = target.plan_part_copies(source) if isinstance(target, CopiesFrom) else (0, 0)
    if not part:
        part, lanes = PART, IN_FLIGHT
    return max(part // lanes, -(-size // MOST_PARTS)), lanes


async def _store(
    run: Run[SpecT, CopyCursorT], source: Endpoint, target: Endpoint, file: SourceVersion, upload: Upload
) -> tuple[Entry, int | None]:
    """Store a file by the cheapest means that both storages have; its entry, and how many bytes it must have."""
    if source.driver is target.driver and isinstance(source.driver, Copies):
        try:
            await source.driver.copy(source.path, target.path)
            return await target.driver.stat(target.path), file.size
        except NotSupported:
            pass  # too large to be done at once, or not within this storage
    if file.size is not None:
        if file.size > WHOLE and isinstance(target.driver, Parts):
            return await _store_parts(run, source, target, target.driver, upload, file), file.size
        if isinstance(target.driver, CopiesFrom):
            request = CopyRequest(source.path, target.path, file.size, file.modified, not upload.exclusive)
            results = await target.driver.copy_from(source.driver, [request])
            if results is not None:
                if results[0] is not None:
                    raise results[0]
                pass_checkpoint("copy.whole")
                return await target.driver.stat(target.path), file.size
    return await _store_whole(source, target, file, upload)


async def _store_whole(
    source: Endpoint, target: Endpoint, file: SourceVersion, upload: Upload
) -> tuple[Entry, int | None]:
    """Store a file in one go; its entry, and how many bytes were read."""
    if not isinstance(target.driver, Writes):
        raise NotSupported
    size = 0

    async def verify(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        nonlocal size
        async for block in body:
            size += len(block)
            yield block
        await _check_unchanged(source, file)

    body: Any = await source.driver.read(source.path)
    async with aclosing(body):
        entry = await target.driver.write(target.path, verify(body), upload)
    pass_checkpoint("copy.whole")
    return entry, size if file.size is None else file.size


async def _store_parts(
    run: Run[SpecT, CopyCursorT], source: Endpoint, target: Endpoint, driver: Parts, upload: Upload, file: SourceVersion
) -> Entry:
    """Store part by part; the record knows each stored one, so that the next worker begins at the next."""
    assert file.size is not None
    size = file.size
    length, lanes = _plan_parts(source.driver, driver, size)
    partial = await _begin_parts(run, target, driver, upload, length)
    length, receipts = partial.length, partial.receipts
    before = run.cursor.bytes_done
    receipts += [""] * (-(-size // length) - len(receipts))
    missing = deque(index for index, receipt in enumerate(receipts) if not receipt)
    saving = asyncio.Lock()  # one write at a time: an older one must not arrive after a newer one

    async def store_next() -> None:
        try:
            while missing:
                index = missing.popleft()
                receipts[index] = await _store_part(source, target, driver, partial, index, size)
                pass_checkpoint("copy.part")
                async with saving:
                    run.show_progress(before + min((len(receipts) - receipts.count("")) * length, size))
                    await run.save()
                if not run.has_time():
                    return
        except BaseException:
            missing.clear()
            raise

    await gather_all(store_next() for _ in range(lanes))
    if missing:
        raise OutOfTime
    pass_checkpoint("copy.parts")
    await _check_unchanged(source, file)
    return await _finish_parts(run, source, target, driver, upload, partial)


async def _finish_parts(
    run: Run[SpecT, CopyCursorT],
    source: Endpoint,
    target: Endpoint,
    driver: Parts,
    upload: Upload,
    partial: PartialFile,
) -> Entry:
    """Make the file of its parts, unless a worker did that and died before it could say so."""
    try:
        entry = await driver.finish(target.path, partial.token, partial.receipts, upload)
    except (NotFound, Exists) as problem:
        if not await have_same_bytes(source, target):
            raise (
                problem if isinstance(problem, Exists) else StorageProblem("the parts stored so far are gone")
            ) from None
        await drop_partial(run, target.driver)
        entry = await target.driver.stat(target.path)
    pass_checkpoint("copy.finished")
    run.cursor.partial = None
    return entry


async def _begin_parts(
    run: Run[SpecT, CopyCursorT], target: Endpoint, driver: Parts, upload: Upload, length: int
) -> PartialFile:
    """The partial file of the record, begun at the storage; its intent is saved before, its token after."""
    partial = run.cursor.partial
    if partial is None or partial.path != target.path or not partial.token:
        await drop_partial(run, target.driver)
        partial = PartialFile(path=target.path, key=make_parts_key(), length=length)
        run.cursor.partial = partial
        await run.save()
        pass_checkpoint("copy.intended")
        partial.token = await driver.begin(target.path, upload, partial.key)
        pass_checkpoint("copy.started")
        await run.save()
        pass_checkpoint("copy.ready")
    return partial


async def _store_part(
    source: Endpoint, target: Endpoint, driver: Parts, partial: PartialFile, index: int, size: int
) -> str:
    """Store one part; its receipt."""
    offset = index * partial.length
    length, number = min(partial.length, size - offset), index + 1
    if isinstance(driver, CopiesFrom) and driver.plan_part_copies(source.driver)[0]:
        return await driver.copy_part_from(
            source.driver, source.path, target.path, partial.token, number, offset, length
        )
    content = await source.read_range(offset, length)
    # a part that arrives after all are dropped would stay for ever
    return await finish_despite_cancel(driver.write_part(target.path, partial.token, number, offset, content))


async def drop_partial(run: Run[SpecT, CursorT], target: Driver, path: TreePath | None = None) -> None:
    """Forget the parts of the file that was not finished, if there is one and, when `path` is given, it is that."""
    partial = run.cursor.partial
    if partial is None or path not in (None, partial.path):
        return
    if isinstance(target, Parts) and partial.token:
        await target.abort(TreePath(partial.path), partial.token)
    elif isinstance(target, Parts):
        await target.abort_by_key(TreePath(partial.path), partial.key)
    run.cursor.partial = None
