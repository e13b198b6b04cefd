"""One body into one S3 object: a single put when it is small, else a multipart upload, whole or not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Entry, Upload
from mangrove.drivers.refusals import refuse_other_size
from mangrove.drivers.s3.objects import Objects, Part

PART = 8 << 20  # bytes
IN_FLIGHT = 3
MOST_PARTS = 10_000


def plan_part_size(size: int | None) -> int:
    """Bytes of a part of a body of `size` bytes, so that there are not too many."""
    return PART if size is None else max(PART, -(-size // MOST_PARTS))


class StreamingUpload:
    """Stores a body of any length; holds at most IN_FLIGHT parts and the one that is gathered."""

    def __init__(self, objects: Objects, key: str, upload: Upload) -> None:
        self._objects = objects
        self._key = key
        self._announced = upload
        self._part_size = plan_part_size(upload.size)
        self._upload_id = ""
        self._sending: list[asyncio.Task[Part]] = []
        self._parts: list[Part] = []
        self._number = 0

    async def run(self, name: str, body: AsyncIterator[bytes]) -> Entry:
        """Read the body to its end and make the object; nothing stays behind when that fails."""
        size, part = 0, bytearray()
        is_one_put = self._announced.size is not None and self._announced.size <= PART
        try:
            async for block in body:
                size += len(block)
                self._refuse_longer(size)
                while not is_one_put and len(part) + len(block) >= self._part_size:
                    cut = self._part_size - len(part)
                    part += memoryview(block)[:cut]
                    await self._send_part(part)
                    part, block = bytearray(), block[cut:]
                part += block
            refuse_other_size(size, self._announced.size)
            etag = await (self._complete(part) if self._upload_id else self._put_object(part))
        except BaseException:
            if self._upload_id:
                await finish_despite_cancel(self._objects.abort(self._key, self._upload_id, self._sending))
            raise
        return Entry(name, size, time.time(), False, etag=etag)

    def _refuse_longer(self, size: int) -> None:
        if self._announced.size is not None and size > self._announced.size:
            refuse_other_size(size, self._announced.size)

    async def _put_object(self, content: bytearray) -> str:
        described = {"ContentType": self._announced.mime}
        putting = self._objects.put(self._key, content, self._announced.overwrite, **described)
        return await finish_despite_cancel(putting)  # else it arrives later, over what somebody else has stored

    async def _send_part(self, part: bytearray) -> None:
        if not self._upload_id:
            self._upload_id = await self._objects.begin(self._key, ContentType=self._announced.mime)
        while len(self._sending) >= IN_FLIGHT:
            await self._wait_for_oldest()
        self._number += 1
        if self._number > MOST_PARTS:
            raise StorageProblem("the body is too long to be stored without its size being announced")
        sending = self._objects.put_part(self._key, self._upload_id, self._number, part)
        self._sending.append(asyncio.create_task(sending))

    async def _complete(self, last: bytearray) -> str:
        if last:
            await self._send_part(last)
        while self._sending:
            await self._wait_for_oldest()
        return await self._objects.complete(self._key, self._upload_id, self._parts, self._announced.overwrite)

    async def _wait_for_oldest(self) -> None:
        """Wait for the oldest part; it stays among those in flight when this is cancelled."""
        await asyncio.wait(self._sending[:1])
        self._parts.append(self._sending.pop(0).result())
