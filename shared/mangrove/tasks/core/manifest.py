"""Lists of any length that a task keeps in staging: appended to, read from any place, never held as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.drivers.base import Entry, Upload
from mangrove.tasks.core import staging
from mangrove.tasks.core.specs import ManifestEntry

CHUNK = 1000  # rows in one file


class ManifestLost(Problem):
    """A chunk of a list is gone, empty or torn: what a power cut, or who cleared the folder, has left."""

    text = "the list of what is to be copied is lost; a retry makes it anew"


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
        self._waiting = await self._read_chunk(begin // CHUNK)
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
        """The rows of a chunk that are stored and counted; ManifestLost when not all of them are there."""
        storage = await staging.driver()
        path = staging.get_path(self._task_id, f"{self._name}-{number:06}")
        wanted = min(CHUNK, self._stored - number * CHUNK)
        try:
            content = b"".join([block async for block in await storage.read(path)])
            rows = [self._parse(orjson.loads(line)) for line in content.split(b"\n")[:wanted]]
        except (EntryNotFound, ValueError, TypeError) as error:  # ValueError: not JSON; TypeError: not a row
            raise ManifestLost from error
        if len(rows) < wanted:
            raise ManifestLost
        return rows

    async def check(self, start: int) -> None:
        """ManifestLost unless all rows from `start` on can be read."""
        while rows := await self.read_rows(start):
            start += len(rows)

    async def read_rows(self, start: int) -> list[Row]:
        """The rows from `start` to the end of its chunk; empty at the end. ManifestLost."""
        if start >= self.count:
            return []
        if start >= self._stored and self._waiting:
            return self._waiting[start - self._stored :]
        begin = start - start % CHUNK
        return (await self._read_chunk(start // CHUNK))[start - begin : self.count - begin]


class OnlyEntry(Manifest[ManifestEntry]):
    """The list of a transfer of one file, which its cursor holds: nothing is stored."""

    def __init__(self, entry: ManifestEntry, count: int) -> None:
        super().__init__("", "", 0, ManifestEntry._make)
        self._waiting = [entry] * count

    async def flush(self) -> None:
        """It needs no other place."""


def open_entries(
    task_id: str, round: int, count: int, only_entry: ManifestEntry | None = None
) -> Manifest[ManifestEntry]:
    """What a transfer is to copy: all entries in round 0, in the next ones what failed in the one before."""
    if only_entry is not None:
        return OnlyEntry(only_entry, count)
    return Manifest(task_id, f"entries-{round}", count, ManifestEntry._make)


def open_folders(task_id: str, count: int) -> Manifest[str]:
    """The folders below the source of a transfer, those above before those below."""
    return Manifest(task_id, "folders", count, str)


class ListLost(Problem):
    """The list itself is gone: nothing else says what was asked for."""

    text = "the list of what was asked for is lost: ask for it again"


class ListedEntry(NamedTuple):
    """An entry below the folder that a task works on, as it was when it was asked for; `target`: its path below the
    target, "" for the same one."""

    path: str
    size: int | None
    modified: float
    is_dir: bool
    etag: str
    target: str = ""

    @classmethod
    def of(cls, path: str, entry: Entry, target: str = "") -> ListedEntry:
        """The row of what a request looked at."""
        return cls(path, entry.size, entry.modified, entry.is_dir, entry.etag, "" if target == path else target)


def _parse(row: list[object]) -> ListedEntry:
    return ListedEntry._make(row)


def open_names(task_id: str, count: int) -> Manifest[ListedEntry]:
    """The list of a task."""
    return Manifest(task_id, "names", count, _parse)


async def store_names(task_id: str, rows: Iterable[ListedEntry]) -> int:
    """Store the list of a task that is to be opened; how many rows there are."""
    listed = open_names(task_id, 0)
    for row in rows:
        await listed.append(row)
    await listed.flush()
    await staging.sync(TreePath(f"/{task_id}"))
    return listed.count


async def read_names(task_id: str, count: int) -> dict[str, str]:
    """Path below the source → path below the target, of what gets another one there."""
    names: dict[str, str] = {}
    async for rows in read_name_rows(task_id, count, 0):
        names |= {row.path: row.target for row in rows if row.target}
    return names


async def read_name_rows(task_id: str, count: int, start: int) -> AsyncIterator[Sequence[ListedEntry]]:
    """The rows of a list from `start` on, a chunk at a time; ListLost."""
    listed = open_names(task_id, count)
    try:
        while rows := await listed.read_rows(start):
            yield rows
            start += len(rows)
    except ManifestLost:
        raise ListLost from None
