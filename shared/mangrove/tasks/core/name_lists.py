"""Lists of the names that a request has, for a task over all of them: in staging, with what each entry was then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.drivers.base import Entry
from mangrove.tasks.core import staging
from mangrove.tasks.core.manifest import Manifest, ManifestLost


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


def open_list(task_id: str, count: int) -> Manifest[ListedEntry]:
    """The list of a task."""
    return Manifest(task_id, "names", count, _parse)


async def store(task_id: str, rows: Iterable[ListedEntry]) -> int:
    """Store the list of a task that is to be opened; how many rows there are."""
    listed = open_list(task_id, 0)
    for row in rows:
        await listed.append(row)
    await listed.flush()
    await staging.sync(TreePath(f"/{task_id}"))
    return listed.count


async def read_names(task_id: str, count: int) -> dict[str, str]:
    """Path below the source → path below the target, of what gets another one there."""
    names: dict[str, str] = {}
    async for rows in read(task_id, count, 0):
        names |= {row.path: row.target for row in rows if row.target}
    return names


async def read(task_id: str, count: int, start: int) -> AsyncIterator[Sequence[ListedEntry]]:
    """The rows of a list from `start` on, a chunk at a time; ListLost."""
    listed = open_list(task_id, count)
    try:
        while rows := await listed.read_rows(start):
            yield rows
            start += len(rows)
    except ManifestLost:
        raise ListLost from None
