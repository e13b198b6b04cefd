"""What a run of the machine index keeps beside its cursor, and asks in each of its states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.problems import StorageProblem
from mangrove.search.scope import is_indexed
from mangrove.search.segments import Segments, SegmentStore
from mangrove.tasks.core.manifest import Manifest as Rows
from mangrove.tasks.core.steps import Run
from mangrove.tasks.index.declaration import IndexCursor, IndexSpec

ALL = -1  # levels below a folder

IndexRun: TypeAlias = Run[IndexSpec, IndexCursor]


class Folder(NamedTuple):
    """A folder to be read (its path inside the storage), and how many levels of folders below it, too; ALL of them.
    With 0 only those that the index does not know."""

    path: str
    levels: int


def get_store() -> SegmentStore:
    """Where the indexes are kept."""
    return runtime.get(SegmentStore)


def open_folders(run: IndexRun, count: int, lists: str = "") -> Rows[Folder]:
    """The folders to be read, in the order in which they were found; `lists`: those of a part."""
    return Rows(run.task.id, f"{lists or run.cursor.lists}folders", count, Folder._make)


def open_failed(run: IndexRun, count: int, lists: str = "") -> Rows[str]:
    """The paths of folders that could not be read."""
    return Rows(run.task.id, f"{lists or run.cursor.lists}failed", count, str)


class RequestedRead(NamedTuple):
    """A change that asks for a folder to be read, by its number."""

    number: str
    path: str
    deep: bool


def open_reads(run: IndexRun, count: int) -> Rows[RequestedRead]:
    """The changes that ask for folders to be read, as they were when the run began."""
    return Rows(run.task.id, "reads", count, RequestedRead._make)


async def read_all(rows: Rows[Any]) -> list[Any]:
    """All rows of a list that is no longer than the memory allows."""
    found: list[Any] = []
    while some := await rows.read_rows(len(found)):
        found += some
    return found


async def is_wanted(storage_id: int) -> bool:
    """Whether a storage is there, and to have an index."""
    now = await configuration.get()
    return any(storage.id == storage_id and is_indexed(storage, now.settings) for storage in now.storages)


async def write_all(rows: Rows[Any], content: Sequence[Any]) -> int:
    """Write a list from its beginning; how many rows it has."""
    for row in content:
        await rows.append(row)
    await rows.flush()
    return rows.count


async def open_base(run: IndexRun) -> Segments:
    """The index that an update is laid over; StorageProblem when it is gone."""
    segments = await get_store().open(run.spec.storage_id)
    if segments is None or segments.manifest.partial:
        run.cursor.indexed = None
        raise StorageProblem("the index to be updated is gone; it is built anew")
    return segments
