"""One body into one S3 object: a single put when it is small, else a multipart upload, whole or not at all."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Protocol

from mangrove.concurrency import finish_despite_cancel
from mangrove.drivers.base import Entry, Upload
from mangrove.problems import BadRequest, StorageProblem
from mangrove.streams import split_chunks

PART = 8 << 20  # bytes
IN_FLIGHT = 3
MOST_PARTS = 10_000
MD5 = re.compile("[0-9a-f]{32}")
SUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")


class Call(Protocol):
    """One operation of the S3 API on the bucket."""

    def __call__(self, operation: str, **arguments: Any) -> Awaitable[Any]: ...


class StreamingUpload:
    """Stores a body of any length; holds at most IN_FLIGHT parts and the one that is gathered."""

    def __init__(self, call: Call, key: str, upload: Upload) -> None:
        self._call = call
        self._key = key
        self._announced = upload
        self.part_size = PART
        if upload.size is not None and upload.size > PART * MOST_PARTS:
            self.part_size = -(-upload.size // MOST_PARTS)
        self._upload_id = ""
        self._sending: list[asyncio.Task[dict[str, Any]]] = []
        self._parts: list[dict[str, Any]] = []
        self._number = 0

    async def run(self, name: str, body: AsyncIterator[bytes]) -> Entry:
        """Read the body to its end and make the object; nothing stays behind when that fails."""
        size, small = 0, b""
        is_one_put = self._announced.size is not None and self._announced.size <= PART
        try:
            async for part in split_chunks(body, self.part_size):
                size += len(part)
                self._refuse_longer(size)
                if self._upload_id or (len(part) == self.part_size and not is_one_put):
                    await self._send_part(part)
                else:
                    small = part
            self._refuse_other_size(size)
            return await (self._complete(name, size) if self._upload_id else self._put_object(name, small))
        except BaseException:
            if self._upload_id:
                await finish_despite_cancel(abort_upload(self._call, self._key, self._upload_id, self._sending))
            raise

    def _refuse_longer(self, size: int) -> None:
        if self._announced.size is not None and size > self._announced.size:
            self._refuse_other_size(size)

    def _refuse_other_size(self, size: int) -> None:
        if self._announced.size is not None and size != self._announced.size:
            raise BadRequest(f"the body has {size} bytes instead of the announced {self._announced.size}")

    async def _put_object(self, name: str, content: bytes) -> Entry:
        answer = await self._call("put_object", Key=self._key, Body=content, ContentType=self._announced.mime)
        etag = answer.get("ETag", "").strip('"')
        return Entry(name, len(content), time.time(), False, etag=etag)

    async def _send_part(self, part: bytes) -> None:
        if not self._upload_id:
            self._upload_id = await begin_upload(self._call, self._key, self._announced.mime)
        while len(self._sending) >= IN_FLIGHT:
            await self._wait_for_oldest()
        self._number += 1
        if self._number > MOST_PARTS:
            raise StorageProblem("the body is too long to be stored without its size being announced")
        self._sending.append(asyncio.create_task(self._upload_part(self._number, part)))

    async def _upload_part(self, number: int, part: bytes) -> dict[str, Any]:
        answer = await self._call("upload_part", Key=self._key, UploadId=self._upload_id, PartNumber=number, Body=part)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    async def _complete(self, name: str, size: int) -> Entry:
        while self._sending:
            await self._wait_for_oldest()
        answer = await self._call(
            "complete_multipart_upload", Key=self._key, UploadId=self._upload_id,
            MultipartUpload={"Parts": self._parts},
        )  # fmt: skip
        return Entry(name, size, time.time(), False, etag=answer.get("ETag", "").strip('"'))

    async def _wait_for_oldest(self) -> None:
        """Wait for the oldest part; it stays among those in flight when this is cancelled."""
        await asyncio.wait(self._sending[:1])
        self._parts.append(self._sending.pop(0).result())


async def begin_upload(call: Call, key: str, mime: str) -> str:
    """The id of a new multipart upload; when cancelled, the upload that the server begins is aborted."""
    beginning = asyncio.ensure_future(call("create_multipart_upload", Key=key, ContentType=mime))
    try:
        return str((await finish_despite_cancel(beginning))["UploadId"])
    except asyncio.CancelledError:
        if not beginning.cancelled() and beginning.exception() is None:
            await finish_despite_cancel(abort_upload(call, key, beginning.result()["UploadId"]))
        raise


async def abort_upload(call: Call, key: str, upload_id: str, sending: Sequence[asyncio.Task[Any]] = ()) -> None:
    """Drop an upload, after the parts in flight: one that arrives after the abort would be stored for ever."""
    await asyncio.gather(*sending, return_exceptions=True)
    try:
        await call("abort_multipart_upload", Key=key, UploadId=upload_id)
    except StorageProblem:
        pass  # not reachable, or dropped already; the bucket's lifecycle rule removes what is left


def parse_checksums(head: Mapping[str, Any]) -> dict[str, str]:
    """Checksums of the whole object's bytes in the answer of head_object, by algorithm; composite ones are left out."""
    found: dict[str, str] = {}
    if head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        known = {name.lower(): head.get(f"Checksum{name}", "") for name in SUMS}
        found = {name: value for name, value in known.items() if value and "-" not in value}
    etag = head.get("ETag", "").strip('"')
    plain = head.get("ServerSideEncryption", "AES256") == "AES256" and "SSECustomerAlgorithm" not in head
    return found | {"md5": etag} if plain and MD5.fullmatch(etag) else found
