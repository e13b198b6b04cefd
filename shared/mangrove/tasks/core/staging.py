"""Staging: the bytes and lists that a task keeps until it ends. It is a folder of the data directory, or a bucket.

A list (`StagedList`) has any length. It is appended to, read from any row on, and never in memory as a whole.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.drivers.base import Driver, Upload
from mangrove.drivers.registry import StartedStorage
from mangrove.tasks.core.model import ManifestEntry

BODY = "body"  # the result of a task for the next task
PINNED = "pinned"  # marks files that another program uses; this service never removes them
ROWS_PER_FILE = 1000


class Staging(StartedStorage):
    """The storage of staging of this process."""

    def __init__(self, driver: Driver | None = None) -> None:
        super().__init__("staging", "MANGROVE_STAGING_BUCKET", driver)


@dataclass(frozen=True, slots=True)
class StagedPath:
    """A path in staging. Nothing else writes there, and no listing shows it."""

    driver: Driver
    path: TreePath

    def child(self, name: str) -> StagedPath:
        """The entry `name` of this folder."""
        return StagedPath(self.driver, self.path / name)


async def driver() -> Driver:
    """Return the storage of staging."""
    return await runtime.get(Staging).get_driver()


def make_shared_folder(task_id: str, name: str) -> str:
    """Make a folder of a task for programs that run beside this service. Return its absolute path.

    Raise Problem in the cloud.
    """
    return str(platform().make_shared_folder(task_id, name))


def get_path(task_id: str, name: str) -> TreePath:
    """Return the path of a file of a task."""
    return TreePath(f"/{task_id}") / name


async def store(task_id: str, name: str, body: AsyncIterator[bytes], upload: Upload) -> int:
    """Store a body for a task, completely or not at all. Return its size in bytes. `name` may be a path."""
    storage = await driver()
    path = TreePath(f"/{task_id}/{name}")
    await make_parent(path)
    return (await storage.write(path, body, upload)).size or 0


async def make_parent(path: TreePath) -> None:
    """Make the folder of a file; a bucket needs none."""
    if platform().has_disk:
        await make_folder(path.parent)


async def make_folder(path: TreePath) -> None:
    """Make a folder of staging and its parents."""
    storage = await driver()
    await storage.makedirs(path)


async def sync(path: TreePath) -> None:
    """Make a path survive a power cut, if the setting requires that."""
    storage = await driver()
    if configuration.cached().settings.is_durable and storage.capabilities.sync:
        await storage.sync(path)


async def pin(task_id: str) -> None:
    """Leave the files of a task to another program for good."""
    await store(task_id, PINNED, stream(b""), Upload(0, time.time()))


async def clear(task_id: str) -> None:
    """Remove all files of a task, unless they are pinned."""
    try:
        await (await driver()).stat(get_path(task_id, PINNED))
    except Problem:
        await _remove(TreePath(f"/{task_id}"))


async def remove(task_id: str, name: str) -> None:
    """Remove a file of a task."""
    await _remove(get_path(task_id, name))


async def _remove(path: TreePath) -> None:
    storage = await driver()
    try:
        await storage.remove(path)
    except Problem:
        pass  # nothing is there, or the sweep will find it


class ManifestLost(Problem):
    """A file of a list is missing, empty or truncated, after a power cut or because someone emptied the folder."""

    text = "the list of the entries to copy is lost; a retry makes it again"


class ListLost(Problem):
    """The list of a request is lost, and no other record has its content."""

    text = "the list of the requested entries is lost: send the request again"


Row = TypeVar("Row")


class StagedList(Generic[Row]):
    """The rows of a list; `parse` makes a row of its JSON value.

    `count` is the number of stored rows that belong to the list. Rows beyond it, of a worker that died before it saved
    the count, are overwritten.
    """

    def __init__(self, task_id: str, name: str, count: int, parse: Callable[[Any], Row]) -> None:
        self._task_id = task_id
        self._name = name
        self._parse = parse
        self._unstored: list[Row] = []
        self._stored_count = count
        self._is_loaded = count % ROWS_PER_FILE == 0

    @property
    def count(self) -> int:
        return self._stored_count + len(self._unstored)

    async def append(self, row: Row) -> None:
        """Add a row. Full files are stored immediately, the rest by `flush`."""
        if not self._is_loaded:
            await self._load()
        self._unstored.append(row)
        if self.count % ROWS_PER_FILE == 0:
            await self.flush()

    async def extend(self, rows: StagedList[Row], start: int = 0) -> None:
        """Append the rows of another list, from `start` on."""
        while batch := await rows.read_rows(start):
            start += len(batch)
            for row in batch:
                await self.append(row)

    async def _load(self) -> None:
        """Read the rows of the last file, which is not full, into memory."""
        begin = self._stored_count - self._stored_count % ROWS_PER_FILE
        self._unstored = await self._read_file(begin // ROWS_PER_FILE)
        self._stored_count = begin
        self._is_loaded = True

    async def flush(self) -> None:
        """Store the rows that are only in memory."""
        if not self._unstored:
            return
        content = b"\n".join(orjson.dumps(row, default=list) for row in self._unstored)
        name = f"{self._name}-{self._stored_count // ROWS_PER_FILE:06}"
        await store(self._task_id, name, stream(content), Upload(len(content), 0.0))
        pass_checkpoint("manifest.stored")
        if len(self._unstored) == ROWS_PER_FILE:
            self._stored_count += ROWS_PER_FILE
            self._unstored = []

    async def _read_file(self, number: int) -> list[Row]:
        """Return the stored and counted rows of a file. Raise ManifestLost unless all exist."""
        storage = await driver()
        path = get_path(self._task_id, f"{self._name}-{number:06}")
        count = min(ROWS_PER_FILE, self._stored_count - number * ROWS_PER_FILE)
        try:
            content = b"".join([block async for block in await storage.read(path)])
            rows = [self._parse(orjson.loads(line)) for line in content.split(b"\n")[:count]]
        except (EntryNotFound, ValueError, TypeError) as error:  # ValueError: not JSON; TypeError: not a row
            raise ManifestLost from error
        if len(rows) < count:
            raise ManifestLost
        return rows

    async def check(self, start: int) -> None:
        """Raise ManifestLost unless all rows from `start` on can be read."""
        while rows := await self.read_rows(start):
            start += len(rows)

    async def read_rows(self, start: int) -> list[Row]:
        """Return the rows from `start` to the end of its file; none at the end of the list. Raise ManifestLost."""
        if start >= self.count:
            return []
        if start >= self._stored_count and self._unstored:
            return self._unstored[start - self._stored_count :]
        begin = start - start % ROWS_PER_FILE
        return (await self._read_file(start // ROWS_PER_FILE))[start - begin : self.count - begin]


class OnlyEntry(StagedList[ManifestEntry]):
    """The list of a transfer of one file, which is in its cursor: nothing is stored."""

    def __init__(self, entry: ManifestEntry, count: int) -> None:
        super().__init__("", "", 0, parse_entry)
        self._unstored = [entry] * count

    async def flush(self) -> None:
        """Do nothing."""


def parse_entry(row: Any) -> ManifestEntry:
    """Return the entry of a row."""
    return ManifestEntry(*row)


def open_entries(
    task_id: str, round: int, count: int, only_entry: ManifestEntry | None = None
) -> StagedList[ManifestEntry]:
    """Return the list of the entries that a transfer copies: all in round 0, then those that failed in the round
    before.
    """
    if only_entry is not None:
        return OnlyEntry(only_entry, count)
    return StagedList(task_id, f"entries-{round}", count, parse_entry)


def open_folders(task_id: str, count: int) -> StagedList[str]:
    """Return the list of the folders below the source of a task, each before its subfolders."""
    return StagedList(task_id, "folders", count, str)


async def store_requested(task_id: str, entries: Iterable[ManifestEntry]) -> int:
    """Store the list of a task that is to be enqueued. Return the number of its rows."""
    rows = open_requested(task_id, 0)
    for entry in entries:
        await rows.append(entry)
    await rows.flush()
    await sync(TreePath(f"/{task_id}"))
    return rows.count


async def read_requested(task_id: str, count: int, start: int) -> AsyncIterator[Sequence[ManifestEntry]]:
    """Yield the rows of the list of a task from `start` on, a file at a time. Raise ListLost."""
    rows = open_requested(task_id, count)
    try:
        while batch := await rows.read_rows(start):
            yield batch
            start += len(batch)
    except ManifestLost:
        raise ListLost from None


async def read_target_paths(task_id: str, count: int) -> dict[str, str]:
    """Return the paths below the target by the paths below the source, of the rows where they differ."""
    return {
        entry.path: entry.target async for batch in read_requested(task_id, count, 0) for entry in batch if entry.target
    }


def open_requested(task_id: str, count: int) -> StagedList[ManifestEntry]:
    """Return the list of a request."""
    return StagedList(task_id, "names", count, parse_entry)
