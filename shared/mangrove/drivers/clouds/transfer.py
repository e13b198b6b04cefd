"""Bytes of cloud files: ranges of growing size, and uploads in parts or in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from opendal import AsyncOperator
from opendal.capability import Capability
from opendal.file import AsyncFile

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.limits import limits
from mangrove.core.problems import EntryChanged, EntryExists, StorageProblem, TooMany, Unreachable
from mangrove.drivers.base import BLOCK, Upload
from mangrove.drivers.clouds.errors import translate_errors
from mangrove.drivers.whole_files import CountedBody

MAX_RANGE_BYTES = 8 << 20  # of a request; two of them are in memory
PART_BYTES = 8 << 20  # opendal increases it for services that require larger parts
PART_CONCURRENCY = 2
MAX_PARTS = 10_000
MAX_PIECE_BYTES = 64 << 20  # of a file that is sent in one piece, which is in memory until it is complete
WRITE_ANSWER_TIMEOUT_SECONDS = 10.0
MIN_BYTES_PER_SECOND = 256 << 10

Fetch = Callable[[int, int], Awaitable[bytes]]  # offset and length
Check = Callable[[], Awaitable[None]]


async def open_ranges(fetch: Fetch, check: Check, offset: int, end: int) -> AsyncIterator[bytes]:
    """Fetch the first range of a file, and return its blocks from `offset` to `end`.

    A slow reader holds no connection. `check` is called after several ranges, and raises if the file has changed.
    """
    size = min(BLOCK, end - offset)
    return _read_on(fetch, check, await fetch(offset, size), offset + size, end)


async def _read_on(fetch: Fetch, check: Check, chunk: bytes, offset: int, end: int) -> AsyncIterator[bytes]:
    size, is_one_range = BLOCK, offset >= end
    following: asyncio.Future[bytes] | None = None
    try:
        while chunk:
            size = min(2 * size, MAX_RANGE_BYTES, end - offset)
            following = asyncio.ensure_future(fetch(offset, size)) if size else None
            for start in range(0, len(chunk), BLOCK):
                yield chunk[start : start + BLOCK]
            chunk = b"" if following is None else await following
            offset += size
        if not is_one_range:
            await check()
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def pass_check() -> None:
    """Do nothing: the service compares the version with every range."""


def find_max_upload(capability: Capability) -> int | None:
    """Return the maximum size of a file in bytes; None without a limit."""
    return None if capability.write_can_multi else MAX_PIECE_BYTES


def refuse_too_large(size: int | None, limit: int | None) -> None:
    """Raise a StorageProblem for more bytes than the service accepts."""
    if limit is not None and size is not None and size > limit:
        raise StorageProblem(f"this service takes a file in one piece: at most {limit >> 20} MiB can be stored in it")


def plan_part_size(size: int | None) -> int:
    """Return the size of a part of a body of `size` bytes, so that there are not too many parts."""
    return PART_BYTES if size is None else max(PART_BYTES, -(-size // MAX_PARTS))


async def store(operator: AsyncOperator, key: str, body: AsyncIterator[bytes], upload: Upload) -> None:
    """Store a body at `key`; after a failure an existing file is unchanged. Raise EntryExists if the file must not be
    replaced and the service refuses it.

    A file that is not closed never appears: opendal cannot abort an upload, and leaves its bytes to the service.
    """
    capability = operator.capability()
    limit = find_max_upload(capability)
    refuse_too_large(upload.size, limit)
    options = _make_write_options(capability, upload)
    if limit is None:
        options |= {"chunk": plan_part_size(upload.size), "concurrent": PART_CONCURRENCY}
        await _send(operator, key, CountedBody(body, upload.size), None, options)
    else:
        async with _reserve_memory(limit if upload.size is None else upload.size):
            await _send(operator, key, CountedBody(body, upload.size), limit, options | {"chunk": limit})


@asynccontextmanager
async def _reserve_memory(size: int) -> AsyncIterator[None]:
    """Reserve memory for a body for the duration of the context. Raise Unreachable if there is none in time."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(limits().whole_body_bytes.hold("", size))
        except TooMany as problem:
            raise Unreachable(problem.message) from None
        yield


def _make_write_options(capability: Capability, upload: Upload) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if capability.write_with_content_type and upload.mime:
        options["content_type"] = upload.mime
    if capability.write_with_if_not_exists and not upload.overwrite:
        options["if_not_exists"] = True
    return options


async def _send(
    operator: AsyncOperator, key: str, body: CountedBody, limit: int | None, options: dict[str, Any]
) -> None:
    try:
        with translate_errors():
            file = await operator.open(key, "wb", **options)
        async for block in body:
            refuse_too_large(body.size, limit)
            with translate_errors():
                async with _limit_time(options["chunk"]):
                    await file.write(block)
        body.refuse_shorter()
        with translate_errors():
            await finish_despite_cancel(_close(file, min(body.size, options["chunk"] * PART_CONCURRENCY)))
    except EntryChanged:
        if "if_not_exists" in options:
            raise EntryExists from None
        raise


async def _close(file: AsyncFile, size: int) -> None:
    async with _limit_time(size):
        await file.close()


def _limit_time(size: int) -> asyncio.Timeout:
    """Limit the time in which the service has to take `size` bytes."""
    return asyncio.timeout(WRITE_ANSWER_TIMEOUT_SECONDS + size / MIN_BYTES_PER_SECOND)
