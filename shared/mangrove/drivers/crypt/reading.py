"""A range of an encrypted file: only the blocks that contain it are fetched, and each is authenticated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, NamedTuple

from nacl.exceptions import CryptoError

from mangrove.core.chunked import split_chunks, stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.crypt.ciphers import GROUP, HEADER, MAGIC, PLAIN, SEALED, Blocks, decrypt_size


class Range(NamedTuple):
    """Bytes of a file from `offset` to `stop` (None: to the end).

    `end`: the end of the last block with some of them; None if unknown.
    """

    offset: int
    stop: int | None
    end: int | None


class EncryptedFile:
    """A file of the remote, as its entry shows it. `name`: its name in messages."""

    def __init__(self, driver: Driver, path: TreePath, entry: Entry, key: bytes, name: str) -> None:
        self._driver = driver
        self._path = path
        self._entry = entry
        self._key = key
        self._name = name

    async def read(self, offset: int, length: int | None) -> AsyncIterator[bytes]:
        """Read as `Driver.read`."""
        size = decrypt_size(self._entry.size)
        stop = size if length is None else offset + length
        if size is not None:
            stop = size if stop is None else min(stop, size)
        if stop is not None and offset >= stop:
            self._parse(await self._read_header())
            return stream(b"")
        first, is_whole = offset // PLAIN, stop == size
        end = size if is_whole or stop is None or size is None else min(-(-stop // PLAIN) * PLAIN, size)
        # never two concurrent reads: others may wait for the second one with their first one open
        header = await self._read_header() if first else b""
        source: Any = await self._open(first, None if is_whole else stop)
        rest: AsyncIterator[bytes] = source
        try:
            if not first:
                header, rest = await _take(source, HEADER)
            blocks = self._parse(header)
        except BaseException:
            await source.aclose()
            raise
        return self._decrypt(blocks, rest, source, Range(offset, stop, end))

    async def _open(self, first: int, stop: int | None) -> Any:
        """Return the remote's bytes from block `first` on, with the header if that is the first, up to byte `stop`
        of the file (None: to the end).
        """
        begin = HEADER + first * SEALED if first else 0
        length = None
        if stop is not None:
            end = HEADER + -(-stop // PLAIN) * SEALED
            length = (end if self._entry.size is None else min(end, self._entry.size)) - begin
        return await self._driver.read(self._path, begin, length, self._entry)

    async def _read_header(self) -> bytes:
        body: Any = await self._driver.read(self._path, 0, HEADER, self._entry)
        async with aclosing(body):
            return b"".join([block async for block in body])

    def _parse(self, header: bytes) -> Blocks:
        if len(header) != HEADER or not header.startswith(MAGIC):
            raise StorageProblem(f"{self._name} is not an encrypted file")
        return Blocks(self._key, header[len(MAGIC) :])

    async def _decrypt(
        self, blocks: Blocks, rest: AsyncIterator[bytes], source: Any, byte_range: Range
    ) -> AsyncIterator[bytes]:
        """Yield the range from decrypted blocks; the first block contains its offset."""
        at = byte_range.offset - byte_range.offset % PLAIN
        async with aclosing(source):
            async for chunk in split_chunks(rest, GROUP * SEALED):
                with translate_errors(self._name):
                    content = await blocks.open(at // PLAIN, chunk)
                stop = None if byte_range.stop is None else max(byte_range.stop - at, 0)
                part = content[max(byte_range.offset - at, 0) : stop]
                at += len(content)
                if part:
                    yield part
            if byte_range.end is not None and at != byte_range.end:
                refuse_ended(self._name)


async def _take(source: AsyncIterator[bytes], count: int) -> tuple[bytes, AsyncIterator[bytes]]:
    """Return the first bytes of a body, fewer if it has no more, and the rest."""
    head = b""
    async for block in source:
        head += block
        if len(head) >= count:
            break

    async def follow() -> AsyncIterator[bytes]:
        if len(head) > count:
            yield head[count:]
        async for block in source:
            yield block

    return head[:count], follow()


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Raise StorageProblem for bytes of the file `name` that were not encrypted with these keys."""
    try:
        yield
    except CryptoError:
        raise StorageProblem(f"{name} is damaged, or was encrypted with another password or salt") from None


def refuse_ended(name: str) -> None:
    """Raise StorageProblem: the remote storage sent fewer or more bytes of the file than its size."""
    raise StorageProblem(f"{name} does not have the size that its storage shows")
