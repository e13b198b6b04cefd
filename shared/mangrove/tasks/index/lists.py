"""The data of an index run beside its cursor: lists in staging, and the store of the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.problems import StorageProblem
from mangrove.search.scope import is_indexed
from mangrove.search.segments import Segments, SegmentStore
from mangrove.tasks.core import sharing
from mangrove.tasks.core.staging import Manifest as Rows
from mangrove.tasks.core.steps import Run
from mangrove.tasks.index.declaration import IndexCursor, IndexSpec

ALL_LEVELS = -1
MIN_SHARED_FOLDERS = 1000  # left to be read; for fewer, more workers are not worth it

IndexRun: TypeAlias = Run[IndexSpec, IndexCursor]


class Folder(NamedTuple):
    """A folder to be read."""

    path: str
    """The path inside the storage."""
    levels: int
    """The levels of folders below it that are read, too, or ALL_LEVELS. With 0 only those that the index does not
    know."""


class RequestedRead(NamedTuple):
    """A change that asks for a folder to be read."""

    number: str
    """The number of the change."""
    path: str
    deep: bool


def get_store() -> SegmentStore:
    """Return the store of the indexes."""
    return runtime.get(SegmentStore)


def open_folders(run: IndexRun, count: int, lists: str = "") -> Rows[Folder]:
    """Return the list of folders to be read, in the order in which they were found; `lists` names that of a part."""
    return Rows(run.task.id, f"{lists or run.cursor.lists}folders", count, Folder._make)


def open_failed(run: IndexRun, count: int, lists: str = "") -> Rows[str]:
    """Return the list of folders that could not be read, by their paths; `lists` names that of a part."""
    return Rows(run.task.id, f"{lists or run.cursor.lists}failed", count, str)


def open_reads(run: IndexRun, count: int) -> Rows[RequestedRead]:
    """Return the list of changes that asked for folders to be read when the run began."""
    return Rows(run.task.id, "reads", count, RequestedRead._make)


async def read_all(rows: Rows[Any]) -> list[Any]:
    """Return all rows of a list that fits into the memory."""
    result: list[Any] = []
    while batch := await rows.read_rows(len(result)):
        result += batch
    return result


async def write_all(rows: Rows[Any], content: Sequence[Any]) -> int:
    """Write a list from its beginning. Return the number of its rows."""
    for row in content:
        await rows.append(row)
    await rows.flush()
    return rows.count


async def should_have_index(storage_id: int) -> bool:
    """True if the storage exists and is to have an index."""
    config = await configuration.get()
    return any(storage.id == storage_id and is_indexed(storage, config.settings) for storage in config.storages)


def is_to_be_divided(run: IndexRun, folders_left: int) -> bool:
    """True if several workers are to read the folders that are left. An update is read by a single worker."""
    return sharing.is_shared() and not run.cursor.lists and run.cursor.is_whole and folders_left >= MIN_SHARED_FOLDERS


async def open_base(run: IndexRun) -> Segments:
    """Return the index that an update changes. Raise StorageProblem if it is gone."""
    segments = await get_store().open(run.spec.storage_id)
    if segments is None or segments.manifest.partial:
        run.cursor.indexed = None
        raise StorageProblem("the index to be updated is gone; it is built anew")
    return segments
