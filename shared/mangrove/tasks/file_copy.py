"""One file from one storage to another: whole or not at all, verified, continued where it was cut off."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from mangrove.checkpoints import reached
from mangrove.drivers.base import (
    Checksums,
    Copies,
    CopiesFrom,
    CopyRequest,
    Driver,
    Entry,
    Parts,
    Removes,
    SameFile,
    Upload,
    Writes,
    make_parts_key,
)
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem
from mangrove.tasks.steps import Run

PART = 32 << 20  # bytes of a file that are under way at once: what a killed worker may leave to be done again
IN_FLIGHT = 3  # pieces of a part, which are stored side by side
MOST_PIECES = 7_500  # the record names each, and holds 400 KB
WHOLE = 8 << 20  # bytes; a smaller file is stored in one go: one call to S3, so that a killed worker leaves no parts
KEPT_FOLDERS = 4
LARGEST_FOLDER = 20_000  # entries; beyond, each is asked for by itself

Result = TypeVar("Result")


class OutOfTime(Exception):
    """The slice is over and the file is not: the next one goes on with it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A file or folder in a storage."""

    driver: Driver
    path: TreePath

    def __truediv__(self, name: str) -> Endpoint:
        return Endpoint(self.driver, self.path / name)

    async def entry(self) -> Entry | None:
        """What stands here, asked of the storage itself; None for nothing."""
        try:
            return await self.driver.stat(self.path)
        except NotFound:
            return None


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """A file as it was when the work was planned: what it must still be, size in bytes."""

    size: int
    modified: float
    etag: str

    def same(self, entry: Entry | None) -> bool:
        """Whether it is still that file."""
        return (
            entry is not None
            and not entry.is_dir
            and (entry.size or 0) == self.size
            and (entry.etag == self.etag if self.etag or entry.etag else entry.modified == self.modified)
        )


class TargetListing:
    """What stands at the target, asked folder by folder where asking for one entry costs a round trip."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._folders: OrderedDict[TreePath, asyncio.Task[dict[str, Entry]]] = OrderedDict()

    async def find(self, end: Endpoint) -> Entry | None:
        """The entry at `end`, as it was when its folder was first asked for; None for nothing."""
        if self._driver.config.no_cache:
            return await end.entry()
        folder = end.path.parent
        if folder not in self._folders:
            self._folders[folder] = asyncio.ensure_future(self._listed(folder))
            if len(self._folders) > KEPT_FOLDERS:
                self._folders.popitem(last=False)
        found = await self._folders[folder]
        return found.get(end.path.name) or (await end.entry() if len(found) >= LARGEST_FOLDER else None)

    async def _listed(self, folder: TreePath) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        try:
            async for batch in self._driver.list(folder):
                found |= {entry.name: entry for entry in batch}
                if len(found) >= LARGEST_FOLDER:
                    break
        except NotFound:
            pass  # it is made with its first file
        return found


async def copy_file(
    run: Run,
    source: Endpoint,
    target: Endpoint,
    file: SourceVersion,
    near: TargetListing,
    *,
    overwrite: bool,
    leave: bool,
) -> bool:
    """Copy a file and verify it. `leave` keeps what stands at the target; else, without `overwrite`, Exists.

    What is there with the same bytes counts as ours: a worker that died may have stored it already. False: something
    was left there and nobody compared it with the source.
    """
    if not file.same(await source.driver.stat(source.path)):
        raise StorageProblem("the source changed since the task began")
    standing = await near.find(target)
    if standing is not None and not overwrite and run.cursor.get("file", {}).get("path") != target.path:
        if leave:
            return False
        if await alike(source, target):
            return True
        raise Exists
    stored = await _stored(run, source, target, file, Upload(file.size, file.modified, exclusive=not overwrite))
    if stored.size != file.size:
        raise StorageProblem(f"the target has {stored.size} bytes instead of {file.size}")
    try:
        await _sums_agree(source, target)
    except StorageProblem:
        await _withdraw(target, stored)
        raise
    return True


async def _withdraw(target: Endpoint, stored: Entry) -> None:
    """Remove what was stored and is not the source, unless it is another file by now."""
    ours = SourceVersion(stored.size or 0, stored.modified, stored.etag).same(await target.entry())
    if ours and isinstance(target.driver, Removes):
        await target.driver.remove(target.path)


async def _sums_agree(source: Endpoint, target: Endpoint) -> None:
    """Refuse when both storages know checksums of the same kind and two of them differ."""
    if not (isinstance(source.driver, Checksums) and isinstance(target.driver, Checksums)):
        return
    one, other = await source.driver.get_checksums(source.path), await target.driver.get_checksums(target.path)
    if any(one[kind] != other[kind] for kind in one.keys() & other.keys()):
        raise StorageProblem("the target's checksum differs from the source's")


async def alike(source: Endpoint, target: Endpoint) -> bool:
    """Whether two files hold the same bytes."""
    one, other = await source.entry(), await target.entry()
    if one is None or other is None or one.is_dir or other.is_dir or one.size is None or one.size != other.size:
        return False
    for offset in range(0, one.size, PART):
        length = min(PART, one.size - offset)
        if await content(source, offset, length) != await content(target, offset, length):
            return False
    return True


async def one_thing(source: Endpoint, target: Endpoint) -> bool:
    """Whether both ends are the same file or folder, reached through two storages."""
    if not (isinstance(source.driver, SameFile) and isinstance(target.driver, SameFile)):
        return False
    try:
        if not await source.driver.identify(source.path) & await target.driver.identify(target.path):
            return False
    except NotFound:
        return False
    one, other = await source.entry(), await target.entry()  # two servers may have a bucket of the same name
    return one is not None and other is not None and (one.modified, one.etag) == (other.modified, other.etag)


async def together(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """The answers of all; the first failure, but not before the others have ended."""
    running = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*running, return_exceptions=True)
    return [one.result() for one in running]


async def content(end: Endpoint, offset: int, length: int) -> bytes:
    """A range of a file."""
    blocks: Any = await end.driver.read(end.path, offset, length)
    return b"".join([block async for block in blocks])


async def _unchanged(source: Endpoint, file: SourceVersion) -> None:
    """Asked when all bytes are read and before the target is seen: what is torn must not replace what is whole."""
    if not file.same(await source.driver.stat(source.path)):
        raise StorageProblem("the source changed while it was copied")


async def _verified(body: AsyncIterator[bytes], source: Endpoint, file: SourceVersion) -> AsyncIterator[bytes]:
    async for block in body:
        yield block
    await _unchanged(source, file)


def _pieces(source: Driver, target: Parts, size: int) -> tuple[int, int]:
    """Bytes of a piece of a file, and how many are stored side by side."""
    part, lanes = target.plan_part_copies(source) if isinstance(target, CopiesFrom) else (0, 0)
    if not part:
        part, lanes = PART, IN_FLIGHT
    return max(part // lanes, -(-size // MOST_PIECES)), lanes


async def _stored(run: Run, source: Endpoint, target: Endpoint, file: SourceVersion, upload: Upload) -> Entry:
    if source.driver is target.driver and isinstance(source.driver, Copies):
        try:
            await source.driver.copy(source.path, target.path)
            return await target.driver.stat(target.path)
        except NotSupported:
            pass  # too large to be done at once, or not within this storage
    if file.size > WHOLE and isinstance(target.driver, Parts):
        return await _in_parts(run, source, target, target.driver, upload, file)
    if isinstance(target.driver, CopiesFrom):
        wanted = CopyRequest(source.path, target.path, file.size, file.modified, not upload.exclusive)
        if (taken := await target.driver.copy_from(source.driver, [wanted])) is not None:
            if taken[0] is not None:
                raise taken[0]
            reached("carry.whole")
            return await target.driver.stat(target.path)
    if not isinstance(target.driver, Writes):
        raise NotSupported
    body: Any = await source.driver.read(source.path)
    async with aclosing(body):
        stored = await target.driver.write(target.path, _verified(body, source, file), upload)
    reached("carry.whole")
    return stored


async def _in_parts(
    run: Run, source: Endpoint, target: Endpoint, driver: Parts, upload: Upload, file: SourceVersion
) -> Entry:
    """Store part by part; the record knows each stored one, so that whoever goes on begins at the next."""
    assert upload.size is not None
    size = upload.size
    wanted, lanes = _pieces(source.driver, driver, size)
    state = await _begun(run, target, driver, upload, wanted)
    length, receipts = int(state["length"]), state["receipts"]
    before = run.cursor["bytes"]
    receipts += [""] * (-(-size // length) - len(receipts))
    missing = deque(index for index, receipt in enumerate(receipts) if not receipt)
    keeping = asyncio.Lock()  # one write at a time: an older one must not arrive after a newer one

    async def lane() -> None:
        try:
            while missing:
                index = missing.popleft()
                receipts[index] = await _part(source, target, driver, state["token"], index, length, size)
                reached("carry.part")
                async with keeping:
                    run.progress(before + min((len(receipts) - receipts.count("")) * length, size))
                    await run.save()
                if not run.has_time():
                    return
        except BaseException:
            missing.clear()
            raise

    await together(lane() for _ in range(lanes))
    if missing:
        raise OutOfTime
    reached("carry.parts")
    await _unchanged(source, file)
    try:
        stored = await driver.finish(target.path, state["token"], receipts, upload)
    except (NotFound, Exists) as problem:
        if not await alike(source, target):
            raise (
                problem if isinstance(problem, Exists) else StorageProblem("the parts stored so far are gone")
            ) from None
        await drop(run, target.driver)  # a worker made the file and died before it could say so
        stored = await target.driver.stat(target.path)
    reached("carry.finished")
    run.cursor.pop("file", None)
    return stored


async def _begun(run: Run, target: Endpoint, driver: Parts, upload: Upload, length: int) -> dict[str, Any]:
    """What the record says of the file that is under way: begun by now, and by nobody unknown."""
    state: dict[str, Any] | None = run.cursor.get("file")
    if state is None or state["path"] != target.path or not state["token"]:
        await drop(run, target.driver)
        state = {"path": target.path, "key": make_parts_key(), "token": "", "length": length, "receipts": []}
        run.cursor["file"] = state
        await run.save()
        reached("carry.intended")
        state["token"] = await driver.begin(target.path, upload, state["key"])
        reached("carry.begun")
        await run.save()
        reached("carry.ready")
    return state


async def _part(
    source: Endpoint, target: Endpoint, driver: Parts, token: str, index: int, length: int, size: int
) -> str:
    offset = index * length
    wanted = min(length, size - offset)
    if isinstance(driver, CopiesFrom) and driver.plan_part_copies(source.driver)[0]:
        return await driver.copy_part_from(source.driver, source.path, target.path, token, index + 1, offset, wanted)
    held = await content(source, offset, wanted)
    storing = asyncio.ensure_future(driver.write_part(target.path, token, index + 1, offset, held))
    try:
        return await asyncio.shield(storing)
    except asyncio.CancelledError:
        await asyncio.wait([storing])  # one that arrives after the parts are dropped would stay for ever
        raise


async def drop(run: Run, target: Driver, path: TreePath | None = None) -> None:
    """Forget the parts of the file that was not finished, if there is one and, when `path` is given, it is that."""
    state = run.cursor.get("file")
    if state is None or path not in (None, state["path"]):
        return
    if isinstance(target, Parts) and state["token"]:
        await target.abort(TreePath(state["path"]), state["token"])
    elif isinstance(target, Parts):
        await target.abort_by_key(TreePath(state["path"]), state["key"])
    run.cursor.pop("file", None)
