"""One body into one S3 object: a single put when it is small, else parts, whole or not at all."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Protocol

from mangrove.drivers.base import Entry, Upload
from mangrove.problems import BadRequest, NotFound, StorageProblem

PART = 8 << 20  # bytes
IN_FLIGHT = 3
MOST_PARTS = 10_000
CLOCKS_DIFFER = 900.0  # seconds that a server's clock may be behind ours
MD5 = re.compile("[0-9a-f]{32}")
SUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")


class Call(Protocol):
    def __call__(self, operation: str, **arguments: Any) -> Awaitable[Any]: ...


class Store:
    """Holds at most IN_FLIGHT parts and the one that is gathered."""

    def __init__(self, call: Call, key: str, upload: Upload) -> None:
        self._call = call
        self._key = key
        self._announced = upload
        self._part = PART
        if upload.size is not None and upload.size > PART * MOST_PARTS:
            self._part = -(-upload.size // MOST_PARTS)
        self._upload_id = ""
        self._sending: list[asyncio.Task[dict[str, Any]]] = []
        self._sent: list[dict[str, Any]] = []
        self._number = 0

    async def store(self, name: str, body: AsyncIterator[bytes]) -> Entry:
        """Read the body to its end and make the object; nothing stays behind when that fails."""
        size, small = 0, b""
        fits_one = self._announced.size is not None and self._announced.size <= PART
        try:
            async for part in _parts(body, self._part):
                size += len(part)
                self._fits(size, over=True)
                if self._upload_id or (len(part) == self._part and not fits_one):
                    await self._send(part)
                else:
                    small = part
            self._fits(size)
            return await (self._complete(name, size) if self._upload_id else self._put(name, small))
        except BaseException:
            if self._upload_id:
                await asyncio.shield(aborted(self._call, self._key, self._upload_id, self._sending))
            raise

    def _fits(self, size: int, over: bool = False) -> None:
        wanted = self._announced.size
        if wanted is not None and (size > wanted if over else size != wanted):
            raise BadRequest(f"the body has {size} bytes instead of the announced {wanted}")

    async def _put(self, name: str, content: bytes) -> Entry:
        answer = await self._call("put_object", Key=self._key, Body=content, ContentType=self._announced.mime)
        etag = answer.get("ETag", "").strip('"')
        return Entry(name, len(content), time.time(), False, etag=etag)

    async def _send(self, part: bytes) -> None:
        if not self._upload_id:
            self._upload_id = await begun(self._call, self._key, ContentType=self._announced.mime)
        while len(self._sending) >= IN_FLIGHT:
            await self._first_sent()
        self._number += 1
        if self._number > MOST_PARTS:
            raise StorageProblem("the body is too long to be stored without its size being announced")
        self._sending.append(asyncio.create_task(self._one(self._number, part)))

    async def _one(self, number: int, part: bytes) -> dict[str, Any]:
        answer = await self._call("upload_part", Key=self._key, UploadId=self._upload_id, PartNumber=number, Body=part)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    async def _complete(self, name: str, size: int) -> Entry:
        while self._sending:
            await self._first_sent()
        answer = await self._call(
            "complete_multipart_upload", Key=self._key, UploadId=self._upload_id,
            MultipartUpload={"Parts": self._sent},
        )  # fmt: skip
        return Entry(name, size, time.time(), False, etag=answer.get("ETag", "").strip('"'))

    async def _first_sent(self) -> None:
        """Wait for the oldest part; it stays among those under way when we are cancelled meanwhile."""
        await asyncio.wait(self._sending[:1])
        self._sent.append(self._sending.pop(0).result())


async def begun(call: Call, key: str, **arguments: Any) -> str:
    """The id of a new multipart upload; one that the server begins while we are cancelled is aborted."""
    beginning = asyncio.ensure_future(call("create_multipart_upload", Key=key, **arguments))
    try:
        return str((await asyncio.shield(beginning))["UploadId"])
    except asyncio.CancelledError:
        await asyncio.shield(_unbegun(call, key, beginning))
        raise


async def _unbegun(call: Call, key: str, beginning: asyncio.Future[Any]) -> None:
    await asyncio.wait([beginning])
    if beginning.exception() is None:
        await aborted(call, key, beginning.result()["UploadId"])


async def aborted(call: Call, key: str, upload_id: str, sending: Sequence[asyncio.Task[Any]] = ()) -> None:
    """Drop an upload. Parts under way are waited for: one that arrives after the abort would stay for ever."""
    await asyncio.gather(*sending, return_exceptions=True)
    try:
        await call("abort_multipart_upload", Key=key, UploadId=upload_id)
    except StorageProblem:
        pass  # the server is gone, or has dropped it; the bucket's lifecycle rule removes what is left


async def aborted_since(call: Call, key: str, begun_at: float) -> None:
    """Drop the uploads to this very key that began at `begun_at` (seconds since the epoch) or later."""
    try:
        answer = await call("list_multipart_uploads", Prefix=key)
    except NotFound:
        return  # so rclone says that there are none
    for one in answer.get("Uploads", []):
        if one["Key"] == key and one["Initiated"].timestamp() >= begun_at - CLOCKS_DIFFER:
            await aborted(call, key, one["UploadId"])


def parse_checksums(head: Mapping[str, Any]) -> dict[str, str]:
    """What the answer of head_object says of the whole object's bytes, by algorithm; sums of sums are left out."""
    found: dict[str, str] = {}
    if head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        known = {name.lower(): head.get(f"Checksum{name}", "") for name in SUMS}
        found = {name: value for name, value in known.items() if value and "-" not in value}
    etag = head.get("ETag", "").strip('"')
    plain = head.get("ServerSideEncryption", "AES256") == "AES256" and "SSECustomerAlgorithm" not in head
    return found | {"md5": etag} if plain and MD5.fullmatch(etag) else found


async def _parts(body: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The body in pieces of exactly `size` bytes, the last one shorter."""
    held: list[bytes] = []
    length = 0
    async for chunk in body:
        while length + len(chunk) >= size:
            cut = size - length
            yield b"".join([*held, chunk[:cut]])
            held, length, chunk = [], 0, chunk[cut:]
        if chunk:
            held.append(chunk)
            length += len(chunk)
    if held:
        yield b"".join(held)
