"""The body of an S3 object in blocks, compared at its end with the size and checksum that the server reported."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from mangrove.core.problems import EntryChanged, StorageProblem, Unreachable
from mangrove.drivers.base import BLOCK, Entry
from mangrove.drivers.s3.checksums import parse_checksums
from mangrove.drivers.s3.client import S3Client
from mangrove.drivers.s3.errors import DAMAGED, translate_errors
from mangrove.drivers.s3.objects import is_same, make_entry

SMALL_BLOCK = 64 << 10  # bytes: two blocks are in memory for a slow reader
SLOW_BLOCK_SECONDS = 0.05  # with one block
Result = TypeVar("Result")
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


async def open_object(api: S3Client, key: str, offset: int, length: int | None, if_match: Entry | None) -> ObjectBody:
    """Open `length` bytes from `offset`. Raise EntryChanged if the object is not `if_match`."""
    arguments: dict[str, str] = {"ChecksumMode": "ENABLED"}
    if offset or length is not None:
        # without a checksum: some servers answer with that of the whole object
        arguments = {"Range": f"bytes={offset}-{'' if length is None else offset + length - 1}"}
    if if_match is not None and if_match.etag:
        arguments["IfMatch"] = f'"{if_match.etag}"'
    answer = await api("get_object", Key=key, **arguments)
    body = ObjectBody(api, answer)
    try:
        _check_answer(answer, offset, length, if_match)
    except StorageProblem:
        body.close()
        raise
    return body


def _check_answer(answer: Mapping[str, Any], offset: int, length: int | None, if_match: Entry | None) -> None:
    span = RANGE.fullmatch(answer.get("ContentRange", ""))
    if offset and (span is None or int(span[1]) != offset):
        # rclone answers a range with 200 and reports it in ContentRange only
        raise StorageProblem("the S3 server does not answer ranges")
    size = int(span[3]) if span else answer["ContentLength"]
    if if_match is not None and not is_same(if_match, make_entry("", answer)._replace(size=size)):
        raise EntryChanged
    if length is not None and answer["ContentLength"] != length:
        raise StorageProblem("the object changed while it was read")


class Verifier:
    """Compares the bytes of a whole object with a checksum of the answer; nothing if it has none that is known here."""

    def __init__(self, checksums: Mapping[str, str]) -> None:
        self.name = next((name for name in ("crc32", "md5", "sha256", "sha1") if name in checksums), "")
        self._expected = checksums.get(self.name, "")
        self._crc = 0
        self._hash = hashlib.new(self.name, usedforsecurity=False) if self.name not in ("", "crc32") else None

    def update(self, block: bytes) -> None:
        if self._hash is None:
            self._crc = zlib.crc32(block, self._crc)
        else:
            self._hash.update(block)

    def matches(self) -> bool:
        """True if all bytes arrived as the server has them, as far as that is known."""
        if not self.name:
            return True
        digest = self._crc.to_bytes(4, "big") if self._hash is None else self._hash.digest()
        return self._expected == (digest.hex() if self.name == "md5" else base64.b64encode(digest).decode())


class ObjectBody:
    """The body of an answer of get_object.

    It is hashed if that proves it: a whole object with a known checksum or MD5.
    """

    def __init__(self, api: S3Client, answer: Mapping[str, Any]) -> None:
        self._api = api
        self._body = answer["Body"]
        span = RANGE.fullmatch(answer.get("ContentRange", ""))
        is_whole = span is None or int(span[2]) - int(span[1]) + 1 == int(span[3])
        self._verifier = Verifier(parse_checksums(answer) if is_whole else {})

    def close(self) -> None:
        self._body.close()

    async def read_blocks(self) -> AsyncIterator[bytes]:
        """Yield the blocks; the next one is fetched while one is used, a small one while the reader is slow."""
        size = SMALL_BLOCK
        following = self._start(partial(self._body.read, size))
        hashing: asyncio.Task[None] | None = None
        try:
            while True:
                with translate_errors():
                    block = await following
                if hashing is not None:
                    await hashing
                if not block:
                    break
                following = self._start(partial(self._body.read, size))
                if self._verifier.name:
                    hashing = self._start(partial(self._verifier.update, block))
                began = time.monotonic()
                yield block
                size = min(2 * size, BLOCK) if time.monotonic() - began < SLOW_BLOCK_SECONDS else SMALL_BLOCK
            if not self._verifier.matches():
                raise Unreachable(DAMAGED)  # should be retried, like bytes that do not arrive at all
        finally:
            following.cancel()
            self._api.run_later(self.close)  # closing during a read waits for it

    def _start(self, work: Callable[[], Result]) -> asyncio.Task[Result]:
        """Run `work` in a thread, even if no caller waits for it."""
        running = asyncio.create_task(self._api.run(work))
        running.add_done_callback(_take_error)
        return running


def _take_error(done: asyncio.Task[Any]) -> None:
    """Retrieve the failure of a call for which no caller waits any more."""
    if not done.cancelled():
        done.exception()
