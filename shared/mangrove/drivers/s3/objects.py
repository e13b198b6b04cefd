"""Objects of a bucket: found, stored whole or in parts, and removed."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, StorageProblem, Unreachable
from mangrove.drivers.base import Entry, Upload
from mangrove.drivers.refusals import refuse_other_size
from mangrove.drivers.s3.checksums import ChecksumAlgorithm, Content, Integrity, Sums
from mangrove.drivers.s3.client import S3Client
from mangrove.drivers.s3.conditions import ABSENT, ConditionSupport
from mangrove.drivers.s3.errors import DAMAGED, is_conflict, is_refusal, was_repeated

INLINE = 64 << 10  # bytes whose checksums take less time than a thread
FULL = {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}


class UploadedPart(NamedTuple):
    """A part of an upload: its bytes, ETag, CRC-32 if the server returned it, and the ETag of the source if it was
    copied.
    """

    length: int
    etag: str
    crc32: str = ""
    source: str = ""

    def format_receipt(self) -> str:
        return f"{self.length} {self.etag} {self.crc32 or '-'} {self.source or '-'}"

    @classmethod
    def parse_receipt(cls, receipt: str) -> UploadedPart:
        length, etag, *rest = receipt.split(" ")
        crc32, source = ("" if text == "-" else text for text in (*rest, "-", "-")[:2])
        return cls(int(length), etag, crc32, source)

    def describe(self, number: int) -> dict[str, Any]:
        """Return the part in the form of boto3."""
        return {"PartNumber": number, "ETag": self.etag} | ({"ChecksumCRC32": self.crc32} if self.crc32 else {})


class Objects:
    """The objects of a storage by their keys."""

    def __init__(self, api: S3Client, conditions: ConditionSupport) -> None:
        self.api = api
        self.conditions = conditions
        self.integrity = Integrity()

    async def find(self, key: str) -> Entry | None:
        """Return an object as an entry without a name; None if there is none."""
        try:
            return make_entry("", await self.api("head_object", Key=key))
        except EntryNotFound:
            return None

    async def put(self, key: str, content: Content, overwrite: bool, **described: Any) -> str:
        """Store an object and return its ETag.

        Raise EntryExists if it must not replace an object and the server decides that; Unreachable if the server twice
        stored other bytes than were sent, which are removed again.
        """
        sums = await self._sum(content)
        condition = {} if overwrite or not (await self.conditions.ask()).puts else ABSENT
        for _ in range(2):
            try:
                kind, answer = await self._send("put_object", content, sums, Key=key, **described, **condition)
            except EntryChanged as problem:
                stored = await self.find(key) if was_repeated(problem) else None
                if stored is None or stored.etag != sums.md5:
                    raise EntryExists from None
                return stored.etag
            etag = get_etag(answer)
            if self.integrity.compare(sums, kind, answer):
                return etag
            await self._drop_damaged(key, etag)
        raise Unreachable(DAMAGED)

    async def _drop_damaged(self, key: str, etag: str) -> None:
        stored = await self.find(key)
        if stored is not None and stored.etag == etag:
            await self.remove_unchanged(key, stored)

    async def put_part(self, key: str, upload_id: str, number: int, content: Content) -> UploadedPart:
        """Store a part. Raise Unreachable if the server twice has other bytes than were sent."""
        sums = await self._sum(content)
        place = {"Key": key, "UploadId": upload_id, "PartNumber": number}
        for _ in range(2):
            kind, answer = await self._send("upload_part", content, sums, **place)
            if self.integrity.compare(sums, kind, answer):
                return UploadedPart(len(content), str(answer["ETag"]), str(answer.get("ChecksumCRC32", "")))
        raise Unreachable(DAMAGED)

    async def _sum(self, content: Content) -> Sums:
        return Sums.of(content) if len(content) <= INLINE else await self.api.run(partial(Sums.of, content))

    async def _send(
        self, operation: str, content: Content, sums: Sums, **arguments: Any
    ) -> tuple[ChecksumAlgorithm, Any]:
        """Send bytes with the checksum that the server supports. Return its kind, and the answer."""
        refused: list[tuple[ChecksumAlgorithm, StorageProblem]] = []
        for kind in list(ChecksumAlgorithm)[list(ChecksumAlgorithm).index(self.integrity.kind) :]:
            try:
                answer = await self.api(operation, Body=content, **kind.make_arguments(sums), **arguments)
            except StorageProblem as problem:
                if not is_refusal(problem):
                    raise
                refused.append((kind, problem))
                continue
            for other, _ in refused:
                self.integrity.refuse(other)
            return kind, answer
        raise refused[0][1]  # it was not the checksum

    async def begin(self, key: str, **described: Any) -> str:
        """Return the id of a new multipart upload. On cancellation, the upload that the server starts is aborted."""
        beginning = asyncio.ensure_future(self._create_upload(key, described))
        try:
            return await finish_despite_cancel(beginning)
        except asyncio.CancelledError:
            if not beginning.cancelled() and beginning.exception() is None:
                await finish_despite_cancel(self.abort(key, beginning.result()))
            raise

    async def _create_upload(self, key: str, described: Mapping[str, Any]) -> str:
        if self.integrity.kind is ChecksumAlgorithm.CRC32:
            try:
                return str((await self.api("create_multipart_upload", Key=key, **FULL, **described))["UploadId"])
            except StorageProblem as problem:
                if not is_refusal(problem):
                    raise
        upload_id = str((await self.api("create_multipart_upload", Key=key, **described))["UploadId"])
        self.integrity.refuse(ChecksumAlgorithm.CRC32)
        return upload_id

    async def complete(self, key: str, upload_id: str, parts: Sequence[UploadedPart], overwrite: bool) -> str:
        """Assemble the object from its parts and return its ETag.

        Raise EntryExists as `put`, EntryChanged if the parts are of two sources.
        """
        if len({part.source for part in parts if part.source}) > 1:
            raise EntryChanged
        described = [part.describe(number) for number, part in enumerate(parts, 1)]
        condition = {} if overwrite or not (await self.conditions.ask()).puts else ABSENT
        try:
            answer = await self.api(
                "complete_multipart_upload", Key=key, UploadId=upload_id, MultipartUpload={"Parts": described},
                **condition,
            )  # fmt: skip
        except EntryChanged as problem:
            stored = await self.find(key) if was_repeated(problem) else None
            if stored is None or stored.etag != join_etags(parts):
                raise EntryExists from None
            return stored.etag
        except Unreachable as problem:
            if is_conflict(problem) and await self.find(key) is not None:
                raise EntryExists from None
            raise
        return get_etag(answer)

    async def abort(self, key: str, upload_id: str, sending: Sequence[asyncio.Task[Any]] = ()) -> None:
        """Drop an upload, after the parts in transit: a part that arrives after the abort would be stored forever."""
        await asyncio.gather(*sending, return_exceptions=True)
        try:
            await self.api("abort_multipart_upload", Key=key, UploadId=upload_id)
        except StorageProblem:
            pass  # not reachable, or dropped already; the bucket's lifecycle rule removes the rest

    async def remove_unchanged(self, key: str, entry: Entry) -> None:
        """Remove an object that is still `entry`. Raise EntryChanged if it was replaced; a missing one is ignored.

        It is atomic if the server supports `If-Match`; otherwise the version is read right before.
        """
        stored = await self.find(key)
        if stored is None:
            return
        if not is_same(entry, stored):
            raise EntryChanged
        try:
            await self.api("delete_object", Key=key, IfMatch=f'"{stored.etag}"')
        except EntryNotFound:
            return
        except StorageProblem as problem:
            if not is_refusal(problem):
                raise
            await self.api("delete_object", Key=key)


def make_entry(name: str, head: Mapping[str, Any]) -> Entry:
    """Return the entry in the answer of head_object, or of get_object for a whole object."""
    return Entry(name, head["ContentLength"], head["LastModified"].timestamp(), False, etag=get_etag(head))


def get_etag(answer: Mapping[str, Any]) -> str:
    return str(answer.get("ETag", "")).strip('"')


def join_etags(parts: Sequence[UploadedPart]) -> str:
    """Return the ETag that AWS gives to an object of these parts; "" if they have no MD5."""
    try:
        digests = [bytes.fromhex(part.etag.strip('"')) for part in parts]
    except ValueError:
        return ""
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(parts)}"


def is_same(entry: Entry, other: Entry) -> bool:
    """True if two answers about an object agree, as far as both have the data. Some answers have whole seconds only."""
    if entry.etag and other.etag and entry.etag != other.etag:
        return False
    if entry.size is not None and other.size is not None and entry.size != other.size:
        return False
    return not entry.modified or not other.modified or abs(entry.modified - other.modified) < 1


PART = 8 << 20  # bytes
IN_FLIGHT = 3
MAX_PARTS = 10_000


def plan_part_size(size: int | None) -> int:
    """Return the size of a part of a body of `size` bytes, so that there are not too many parts."""
    return PART if size is None else max(PART, -(-size // MAX_PARTS))


class StreamingUpload:
    """Stores a body of any length, with at most IN_FLIGHT parts and the next one in memory."""

    def __init__(self, objects: Objects, key: str, upload: Upload) -> None:
        self._objects = objects
        self._key = key
        self._announced = upload
        self._part_size = plan_part_size(upload.size)
        self._upload_id = ""
        self._sending: list[asyncio.Task[UploadedPart]] = []
        self._parts: list[UploadedPart] = []
        self._number = 0

    async def run(self, name: str, body: AsyncIterator[bytes]) -> Entry:
        """Read the body to its end and make the object. After a failure nothing is left behind."""
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
        # otherwise it arrives later, and replaces the file of another client
        return await finish_despite_cancel(putting)

    async def _send_part(self, part: bytearray) -> None:
        if not self._upload_id:
            self._upload_id = await self._objects.begin(self._key, ContentType=self._announced.mime)
        while len(self._sending) >= IN_FLIGHT:
            await self._wait_for_oldest()
        self._number += 1
        if self._number > MAX_PARTS:
            raise StorageProblem("a body of this length can be stored only if its size is announced")
        sending = self._objects.put_part(self._key, self._upload_id, self._number, part)
        self._sending.append(asyncio.create_task(sending))

    async def _complete(self, last: bytearray) -> str:
        if last:
            await self._send_part(last)
        while self._sending:
            await self._wait_for_oldest()
        return await self._objects.complete(self._key, self._upload_id, self._parts, self._announced.overwrite)

    async def _wait_for_oldest(self) -> None:
        """Wait for the oldest part. On cancellation it stays among those in transit."""
        await asyncio.wait(self._sending[:1])
        self._parts.append(self._sending.pop(0).result())
