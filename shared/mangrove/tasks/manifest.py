"""Lists of any length that a task keeps in staging: appended to, read from any place, never held as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from mangrove.checkpoints import pass_checkpoint
from mangrove.drivers.base import Entry, Upload
from mangrove.streams import stream
from mangrove.tasks import staging
from mangrove.tasks.specs import SourceVersion

CHUNK = 1000  # rows in one file


class ManifestEntry(NamedTuple):
    """One file or folder to be copied: its path below the source ("" for the source itself), and what it was when the
    work was planned. `size` in bytes, None: unknown. Stored as a JSON list."""

    path: str
    size: int | None
    modified: float
    is_dir: bool
    etag: str

    @classmethod
    def of(cls, path: str, entry: Entry) -> ManifestEntry:
        """The row of what a storage lists."""
        return cls(path, entry.size, entry.modified, entry.is_dir, entry.etag)

    @property
    def version(self) -> SourceVersion:
        """What the file must still be."""
        return SourceVersion(self.size, self.modified, self.etag)


Row = TypeVar("Row")


class Manifest(Generic[Row]):
    """Rows of one list; `parse` makes one of its JSON value. `count` says how many of what is stored belong to it: rows
    that a worker stored and did not live to count are written over."""

    def __init__(self, task_id: str, name: str, count: int, parse: Callable[[Any], Row]) -> None:
        self._task_id = task_id
        self._name = name
        self._parse = parse
        self._waiting: list[Row] = []
        self._stored = count
        self._loaded = count % CHUNK == 0

    @property
    def count(self) -> int:
        return self._stored + len(self._waiting)

    async def append(self, row: Row) -> None:
        """Add a row; full chunks are stored at once, the rest with `flush`."""
        if not self._loaded:
            await self._load()
        self._waiting.append(row)
        if self.count % CHUNK == 0:
            await self.flush()

    async def _load(self) -> None:
        """Read the rows of the chunk that is not full back into memory."""
        begin = self._stored - self._stored % CHUNK
        self._waiting = (await self._read_chunk(begin // CHUNK))[: self._stored - begin]
        self._stored = begin
        self._loaded = True

    async def flush(self) -> None:
        """Store what waits; the last chunk stays open."""
        if not self._waiting:
            return
        content = b"\n".join(orjson.dumps(row, default=list) for row in self._waiting)
        name = f"{self._name}-{self._stored // CHUNK:06}"
        await staging.store(self._task_id, name, stream(content), Upload(len(content), 0.0))
        pass_checkpoint("manifest.stored")
        if len(self._waiting) == CHUNK:
            self._stored += CHUNK
            self._waiting = []

    async def _read_chunk(self, number: int) -> list[Row]:
        storage = await staging.driver()
        path = staging.get_path(self._task_id, f"{self._name}-{number:06}")
        content = b"".join([block async for block in await storage.read(path)])
        return [self._parse(orjson.loads(line)) for line in content.split(b"\n")]

    async def read_rows(self, start: int) -> list[Row]:
        """The rows from `start` to the end of its chunk; empty at the end."""
        if start >= self.count:
            return []
        if start >= self._stored and self._waiting:
            return self._waiting[start - self._stored :]
        begin = start - start % CHUNK
        return (await self._read_chunk(start // CHUNK))[start - begin : self.count - begin]


def open_entries(task_id: str, round: int, count: int) -> Manifest[ManifestEntry]:
    """What a transfer is to copy: all entries in round 0, in the next ones what failed in the one before."""
    return Manifest(task_id, f"entries-{round}", count, ManifestEntry._make)


def open_folders(task_id: str, count: int) -> Manifest[str]:
    """The folders below the source of a transfer, those above before those below."""
    return Manifest(task_id, "folders", count, str)
