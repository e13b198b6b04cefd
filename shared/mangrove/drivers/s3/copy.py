"""Copies that the S3 server makes by itself: the bytes do not pass through this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mangrove.drivers.base import CopyRequest, Entry
from mangrove.drivers.s3.upload import Call
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem

LARGEST_COPY = 5 << 30  # bytes that CopyObject takes; more is copied part by part
PART = 512 << 20  # bytes in flight at once
PARTS_AT_ONCE = 3
AT_ONCE = 8  # objects in flight

Stat = Callable[[TreePath], Awaitable[Entry]]
CopySource = Mapping[str, str]  # bucket and key of an object, as boto3 takes them


async def copy_object(call: Call, source: CopySource, target: str, size: int | None) -> None:
    """Copy an object; NotSupported for one that has to be copied in parts, which is work for a task."""
    if size is None or size > LARGEST_COPY:
        raise NotSupported
    await call("copy_object", Key=target, CopySource=source)


async def copy_part(
    call: Call, source: CopySource, target: str, upload_id: str, number: int, offset: int, length: int
) -> str:
    """Copy a range of an object as a part of an upload; the part's ETag."""
    span = f"bytes={offset}-{offset + length - 1}"
    answer = await call(
        "upload_part_copy", Key=target, UploadId=upload_id, PartNumber=number, CopySource=source, CopySourceRange=span
    )
    return str(answer["CopyPartResult"]["ETag"])


async def copy_from(
    call: Call, stat_source: Stat, stat_target: Stat, files: Sequence[tuple[CopySource, str, CopyRequest]]
) -> Sequence[StorageProblem | None]:
    """Copy small objects of another bucket; the problem of each, or None."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def copy_one(source: CopySource, key: str, file: CopyRequest) -> StorageProblem | None:
        async with limit:
            try:
                found = await stat_source(file.source)
                if found.is_dir or (found.size, found.modified) != (file.size, file.modified):
                    raise StorageProblem("the source changed since the task began")
                if not file.overwrite and await _exists(stat_target, file.target):
                    raise Exists
                await call("copy_object", Key=key, CopySource=source, CopySourceIfMatch=f'"{found.etag}"')
            except StorageProblem as problem:
                return problem
        return None

    return await asyncio.gather(*(copy_one(*file) for file in files))


async def _exists(stat: Stat, path: TreePath) -> bool:
    try:
        await stat(path)
    except NotFound:
        return False
    return True
