"""The lists of an index run in staging, and the store of the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.problems import StorageProblem
from mangrove.search.scope import is_indexed
from mangrove.search.segments import Segments, SegmentStore
from mangrove.tasks.core import sharing
from mangrove.tasks.core.staging import StagedList as Rows
from mangrove.tasks.core.steps import Run
from mangrove.tasks.index.declaration import IndexCursor, IndexSpec

ALL_LEVELS = -1
MIN_SHARED_FOLDERS = 1000  # left to be read; below it, more workers do not pay off

IndexRun: TypeAlias = Run[IndexSpec, IndexCursor]


class Folder(NamedTuple):
    """A folder that is to be read."""

    path: str
    """The path inside the storage."""
    levels: int
    """The levels of folders below it that are read, too, or ALL_LEVELS.

    With 0, only folders that the index does not have.
    """


class RequestedRead(NamedTuple):
    """A change that requires a folder to be read."""

    number: str
    """The number of the change."""
    path: str
    deep: bool


def get_store() -> SegmentStore:
    """Return the store of the indexes."""
    return runtime.get(SegmentStore)


def open_folders(run: IndexRun, count: int, lists: str = "") -> Rows[Folder]:
    """Return the list of folders to read, in the order in which they were found; `lists` names that of a part."""
    return Rows(run.task.id, f"{lists or run.cursor.lists}folders", count, Folder._make)


def open_failed(run: IndexRun, count: int, lists: str = "") -> Rows[str]:
    """Return the list of folders that could not be read, by their paths; `lists` names that of a part."""
    return Rows(run.task.id, f"{lists or run.cursor.lists}failed", count, str)


def open_reads(run: IndexRun, count: int) -> Rows[RequestedRead]:
    """Return the list of changes that required folders to be read when the run started."""
    return Rows(run.task.id, "reads", count, RequestedRead._make)


async def read_all(rows: Rows[Any]) -> list[Any]:
    """Return all rows of a list that fits into memory."""
    result: list[Any] = []
    while batch := await rows.read_rows(len(result)):
        result += batch
    return result


async def write_all(rows: Rows[Any], content: Sequence[Any]) -> int:
    """Rewrite a list from its start. Return the number of its rows."""
    for row in content:
        await rows.append(row)
    await rows.flush()
    return rows.count


async def should_have_index(storage_id: int) -> bool:
    """True if the storage exists and should have an index."""
    config = await configuration.get()
    return any(storage.id == storage_id and is_indexed(storage, config.settings) for storage in config.storages)


def is_to_be_divided(run: IndexRun, folders_left: int) -> bool:
    """True if several workers should read the remaining folders. An update is read by a single worker."""
    return sharing.is_shared() and not run.cursor.lists and run.cursor.is_whole and folders_left >= MIN_SHARED_FOLDERS


async def open_base(run: IndexRun) -> Segments:
    """Return the index that an update changes. Raise StorageProblem if it is missing."""
    segments = await get_store().open(run.spec.storage_id)
    if segments is None or segments.manifest.partial:
        run.cursor.indexed = None
        raise StorageProblem("the index to be updated is gone; it is built again")
    return segments
