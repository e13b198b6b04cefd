"""Copies that the S3 server makes by itself: the bytes do not pass through us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mangrove.drivers.base import CopyRequest, Entry
from mangrove.drivers.s3.upload import Call
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem

LARGEST_COPY = 5 << 30  # bytes that CopyObject takes; more goes part by part
PART = 512 << 20  # bytes that are under way at once
PARTS_AT_ONCE = 3
AT_ONCE = 8  # copies in flight

Look = Callable[[TreePath], Awaitable[Entry]]
Place = Mapping[str, str]  # an object as `CopySource` names it


async def copied(call: Call, source: Place, target: str, size: int) -> None:
    """Copy an object; NotSupported for one that takes parts, which is work for a task."""
    if size > LARGEST_COPY:
        raise NotSupported
    await call("copy_object", Key=target, CopySource=source)


async def part(call: Call, source: Place, target: str, upload: str, number: int, offset: int, length: int) -> str:
    """Copy a range of an object as a part of an upload; the part's tag."""
    span = f"bytes={offset}-{offset + length - 1}"
    answer = await call(
        "upload_part_copy", Key=target, UploadId=upload, PartNumber=number, CopySource=source, CopySourceRange=span
    )
    return str(answer["CopyPartResult"]["ETag"])


async def copy_from(
    call: Call, look: Look, there: Look, files: Sequence[tuple[Place, str, CopyRequest]]
) -> Sequence[StorageProblem | None]:
    """Copy small objects of another bucket (`look` asks it, `there` the target); what happened to each."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(source: Place, key: str, file: CopyRequest) -> StorageProblem | None:
        async with turn:
            try:
                await _taken(call, look, there, source, key, file)
            except StorageProblem as problem:
                return problem
        return None

    return await asyncio.gather(*(one(*wanted) for wanted in files))


async def _taken(call: Call, look: Look, there: Look, source: Place, key: str, file: CopyRequest) -> None:
    found = await look(file.source)
    if found.is_dir or (found.size, found.modified) != (file.size, file.modified):
        raise StorageProblem("the source changed since the task began")
    if not file.overwrite:
        try:
            await there(file.target)
            raise Exists
        except NotFound:
            pass
    await call("copy_object", Key=key, CopySource=source, CopySourceIfMatch=f'"{found.etag}"')
