"""A body into one file of a cloud, whole or not at all: in parts, or in one piece where the service takes no parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from opendal import AsyncOperator
from opendal.capability import Capability
from opendal.file import AsyncFile

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.limits import limits
from mangrove.core.problems import EntryChanged, EntryExists, StorageProblem, TooMany, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.clouds.errors import translate_errors
from mangrove.drivers.whole_files import CountedBody

PART = 8 << 20  # bytes; opendal makes it larger where the service wants that
IN_FLIGHT = 2
MOST_PARTS = 10_000
LARGEST_PIECE = 64 << 20  # bytes of a file that is sent in one piece, which is in memory until it is whole
ANSWER_SECONDS = 10.0
SLOWEST = 256 << 10  # bytes each second


def find_largest_upload(can: Capability) -> int | None:
    """Bytes that a file may have; None: any number."""
    return None if can.write_can_multi else LARGEST_PIECE


def refuse_too_large(size: int | None, largest: int | None) -> None:
    """StorageProblem for more bytes than the service is sent."""
    if largest is not None and size is not None and size > largest:
        raise StorageProblem(f"this service takes a file in one piece: at most {largest >> 20} MiB can be stored in it")


def plan_part_size(size: int | None) -> int:
    """Bytes of a part of a body of `size` bytes, so that there are not too many."""
    return PART if size is None else max(PART, -(-size // MOST_PARTS))


async def store(operator: AsyncOperator, key: str, body: AsyncIterator[bytes], upload: Upload) -> None:
    """Store a body at `key`; a file there stays as it is when that fails. EntryExists where the service refuses to
    replace one and must not.

    What is not closed is never there: opendal has no way to give up a file, and dropping one leaves what was sent of it
    to the service.
    """
    can = operator.capability()
    largest = find_largest_upload(can)
    refuse_too_large(upload.size, largest)
    described = _describe(can, upload)
    if largest is None:
        described |= {"chunk": plan_part_size(upload.size), "concurrent": IN_FLIGHT}
        await _send(operator, key, CountedBody(body, upload.size), None, described)
    else:
        async with _hold_memory(largest if upload.size is None else upload.size):
            await _send(operator, key, CountedBody(body, upload.size), largest, described | {"chunk": largest})


@asynccontextmanager
async def _hold_memory(size: int) -> AsyncIterator[None]:
    """Hold memory for a body while the context lasts; Unreachable when there is none in time."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(limits().whole_body_bytes.hold("", size))
        except TooMany as problem:
            raise Unreachable(problem.message) from None
        yield


def _describe(can: Capability, upload: Upload) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if can.write_with_content_type and upload.mime:
        described["content_type"] = upload.mime
    if can.write_with_if_not_exists and not upload.overwrite:
        described["if_not_exists"] = True
    return described


async def _send(
    operator: AsyncOperator, key: str, body: CountedBody, largest: int | None, described: dict[str, Any]
) -> None:
    try:
        with translate_errors():
            file = await operator.open(key, "wb", **described)
        async for block in body:
            refuse_too_large(body.size, largest)
            with translate_errors():
                async with _limit_time(described["chunk"]):
                    await file.write(block)
        body.refuse_shorter()
        with translate_errors():
            await finish_despite_cancel(_close(file, min(body.size, described["chunk"] * IN_FLIGHT)))
    except EntryChanged:
        if "if_not_exists" in described:
            raise EntryExists from None
        raise


async def _close(file: AsyncFile, size: int) -> None:
    async with _limit_time(size):
        await file.close()


def _limit_time(size: int) -> asyncio.Timeout:
    """The time in which the service has to take `size` bytes."""
    return asyncio.timeout(ANSWER_SECONDS + size / SLOWEST)
