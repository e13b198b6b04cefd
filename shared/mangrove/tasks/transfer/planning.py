"""The lists that Plan writes: folders, each before those below it, and all entries that are to be copied."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mangrove.core.chunked import in_batches
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import Problem, Unreachable
from mangrove.drivers.base import Entry
from mangrove.tasks.core import manifest
from mangrove.tasks.core.manifest import ListedEntry, Manifest
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.core.steps import SAVE_INTERVAL_SECONDS
from mangrove.tasks.transfer.routes import TransferRoute
from mangrove.tasks.transfer.step import TransferRun
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.name_locks import lock_name


@dataclass(slots=True)
class Lists:
    """The lists that a plan fills; `total` bytes, as far as sizes are known."""

    run: TransferRun
    entries: Manifest[ManifestEntry]
    folders: Manifest[str]
    total: int
    saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, run: TransferRun) -> Lists:
        """The lists as far as the cursor counts them."""
        id, cursor = run.task.id, run.cursor
        entries = manifest.open_entries(id, 0, cursor.entry_count)
        return cls(run, entries, manifest.open_folders(id, cursor.folder_count), cursor.total)

    async def add(self, path: str, entry: Entry) -> None:
        """Write an entry down, and of a folder that it is to be walked through."""
        await self.entries.append(ManifestEntry.of(path, entry))
        if entry.is_dir:
            await self.folders.append(path)
        else:
            self.total += entry.size or 0

    def count(self) -> None:
        """All that was written down so far belongs to the plan; what comes after that is written down anew after a
        failure."""
        cursor = self.run.cursor
        cursor.entry_count, cursor.folder_count, cursor.total = self.entries.count, self.folders.count, self.total

    async def flush(self) -> None:
        """Store what was written down."""
        await self.entries.flush()
        await self.folders.flush()

    async def save(self) -> None:
        """Count, and now and then have the record know it."""
        self.count()
        if time.monotonic() - self.saved > SAVE_INTERVAL_SECONDS:
            await self.flush()
            await self.run.save()
            self.saved = time.monotonic()


AT_ONCE = 16  # entries that a storage moves side by side
BATCH = 128  # entries between two looks at the time


async def plan_list(run: TransferRun, route: TransferRoute, lists: Lists) -> bool:
    """Go on with the list: move what the storage moves by itself, write down everything else; whether there is more."""
    cursor, count = run.cursor, run.spec.count
    is_quick = run.task.kind == "move" and _find_verb(route, run.spec.is_rename) is not None
    async for rows in manifest.read_name_rows(run.task.id, count, cursor.listed):
        async for batch in in_batches(rows, BATCH):
            moved = [False] * len(batch)
            if is_quick:
                works = [partial(_move_at_once, route, row, run.spec.is_rename) for row in batch]
                moved = await gather_bounded(works, AT_ONCE)
            for row, is_moved in zip(batch, moved, strict=True):
                if not is_moved:
                    await _write_down(run, route, row, lists)
            cursor.listed += len(batch)
            if is_quick:
                run.view.progress = round(cursor.listed / count * 100, 4)
            await lists.save()
            if not run.has_time():
                return cursor.listed < count
    return False


Verb = Callable[..., Awaitable[None]]


def _find_verb(route: TransferRoute, is_rename: bool) -> Verb | None:
    """What moves an entry within its storage; None where there is no such thing."""
    driver = route.source.driver
    if driver is not route.target.endpoint.driver:
        return None
    if is_rename:
        return driver.rename if driver.capabilities.rename else None
    return driver.move if driver.capabilities.move else None


async def _move_at_once(route: TransferRoute, row: ListedEntry, is_rename: bool) -> bool:
    """Whether the storage has moved it. Where it has not, the copying that follows finds a way, or says why not."""
    verb = _find_verb(route, is_rename)
    source, target = route.source / row.path, route.find_target(row.path)
    if verb is None or source.mount is None or target.mount is None or route.find_refusal(row.path) is not None:
        return False
    there, here = (
        StoragePath(target.driver, target.path, target.mount),
        StoragePath(source.driver, source.path, source.mount),
    )
    try:
        async with (
            journal.move(here, there, is_folder=row.is_dir, replaces=route.overwrite),
            lock_name(there, here, overwrite=route.overwrite),
        ):
            await verb(source.path, target.path, overwrite=route.overwrite)
    except Unreachable:
        raise
    except Problem:
        return False
    return True


async def gather_files(route: TransferRoute, found: Sequence[tuple[str, Entry]], lists: Lists) -> None:
    """Take files away from their folders as far as the storage moves them by itself; the others are written down, and
    the folders, to be walked through."""
    files = [ListedEntry.of(path, entry) for path, entry in found if not entry.is_dir]
    files = [row for row in files if route.find_target(row.path).path != (route.source / row.path).path]
    moved = await gather_bounded([partial(_move_at_once, route, row, False) for row in files], AT_ONCE)
    for row, is_moved in zip(files, moved, strict=True):
        if not is_moved:
            await lists.add(row.path, Entry(row.path, row.size, row.modified, False, etag=row.etag))
    for path, entry in found:
        if entry.is_dir:
            await lists.folders.append(path)


async def _write_down(run: TransferRun, route: TransferRoute, row: ListedEntry, lists: Lists) -> None:
    """Write an entry down to be copied; a folder as it is now, since it is gone where a worker moved it and died."""
    entry = Entry(row.path, row.size, row.modified, row.is_dir, etag=row.etag)
    if not row.is_dir:
        await lists.add(row.path, entry)
        return
    refusal = route.find_refusal(row.path)
    found = None if refusal is not None else await (route.source / row.path).find()
    if found is None and refusal is None and run.task.kind == "move":
        moved = await route.find_target(row.path).find()
        if moved is not None and moved.is_dir:
            return
    # what is not there, or may not be taken, is none to be walked through: it fails by name when it is its turn
    await lists.add(row.path, found or entry._replace(is_dir=False))
