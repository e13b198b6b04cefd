"""Repair of the trash after a process died, and deletion of entries that exceed its age, number or size."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mangrove import configuration
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.core.telemetry import log_warning
from mangrove.drivers.base import Driver
from mangrove.records import trash, trash_claims
from mangrove.records.trash import Action, Intent, TrashEntry
from mangrove.tree import mounts
from mangrove.tree.mounts import Mount
from mangrove.tree.trash.claims import lock_entry
from mangrove.tree.trash.content import (
    delete,
    delete_content,
    get_path,
    has_both_paths,
    keeps_versions,
    read_option,
    settle,
)

MAX_INTENTS_PER_CALL = 1000
MAX_INTENTS_PER_LISTING = 100
ABANDONED_SECONDS = 900.0  # an older intent belongs to a process that died
FINISHING_SECONDS = 2.0  # after which a listing checks an intent
ROWS_PER_READ = 500
MAX_MEASURED_ENTRIES = 1_000_000  # of a folder in the trash
MAX_VERSIONS_PER_SWEEP = 10_000  # of a storage that are checked
MAX_ENTRIES_PER_STORAGE = 200_000  # in the trash of a storage after a clean-up
MAX_ENTRIES_PER_OWNER = 50_000  # the same, of the user who removed them
MAX_INTENT_PAGES = 100  # settled in a clean-up
MIB = 1 << 20
DAY_SECONDS = 24 * 3600
ORPHANED_VERSION_DAYS = 30  # minimum for the versions of a file that does not exist any more


async def finish_removals() -> None:
    """Finish the records of entries that are in the trash, if the process that removed them died."""
    table, before = await mounts.ready(), time.time() - FINISHING_SECONDS
    for intent in await asyncio.to_thread(trash.list_intents, MAX_INTENTS_PER_LISTING):
        mount = table.by_id.get(intent.entry.storage_id)
        if mount is None or intent.action is not Action.MOVE or intent.began > before:
            continue
        with suppress(Problem):
            driver = await mount.get_driver()
            if driver.capabilities.versions or intent.entry.is_moved:
                continue  # the removal may still be running
            await driver.stat(get_path(intent.entry))
            if not await has_both_paths(driver, intent.entry):
                await asyncio.to_thread(trash_claims.finish_removal, intent.entry)


async def sweep() -> None:
    """Settle the intents of processes that died. Delete entries that exceed the limits of the trash."""
    await _settle_intents()
    for mount in (await mounts.ready()).mounts:
        with suppress(Problem):
            driver = await mount.get_driver()
            if driver.capabilities.set_aside or read_option(driver, "trash_days") > 0:
                await _sweep_storage(mount, driver)


async def _settle_intents() -> None:
    before = time.time() - ABANDONED_SECONDS
    known = {storage.id for storage in (await configuration.get()).storages}
    table = await mounts.ready()
    start = ""
    for _ in range(MAX_INTENT_PAGES):
        intents = await asyncio.to_thread(trash.list_intents, MAX_INTENTS_PER_CALL, start=start)
        for intent in intents:
            mount = table.by_id.get(intent.entry.storage_id)
            if intent.began > before:
                continue
            if intent.entry.storage_id not in known:
                await asyncio.to_thread(trash.forget, [intent.entry])
            elif mount is not None:
                await _try_to_settle(intent, mount)
        if len(intents) < MAX_INTENTS_PER_CALL:
            return
        start = intents[-1].key


async def _try_to_settle(intent: Intent, mount: Mount) -> None:
    try:
        await _settle(intent, await mount.get_driver())
    except Problem as problem:
        log_warning("a change of the trash waits", reason=problem.message)


async def _settle(intent: Intent, driver: Driver) -> None:
    if intent.action is Action.MOVE:
        async with lock_entry(intent.entry):
            await settle(driver, intent.entry)
        return
    await delete_content(driver, intent.entry)
    await asyncio.to_thread(trash.forget, [intent.entry])


async def _sweep_storage(mount: Mount, driver: Driver) -> None:
    days = read_option(driver, "trash_days")
    if days > 0:
        await _delete_expired(mount.storage.id, driver, trash.make_first_id(time.time() - days * DAY_SECONDS))
    await _delete_excess(mount.storage.id, driver, TrashLimits(max(read_option(driver, "trash_max_size"), 0) * MIB))
    await _delete_orphaned_versions(mount.storage.id, driver, max(days, ORPHANED_VERSION_DAYS))


async def _delete_expired(storage_id: int, driver: Driver, before: str) -> None:
    while True:
        rows = await asyncio.to_thread(trash.list_of, storage_id, ROWS_PER_READ, is_newest_first=False)
        expired = [row for row in rows if row.id < before]
        await _delete(driver, expired)
        if len(expired) < len(rows) or len(rows) < ROWS_PER_READ:
            return


async def _delete(driver: Driver, rows: Sequence[TrashEntry]) -> None:
    """Delete entries. The rules of a bucket decide how long its versions stay: only their records are deleted."""
    await asyncio.to_thread(trash.forget, [row for row in rows if keeps_versions(driver, row)])
    await delete(driver, [row for row in rows if not keeps_versions(driver, row)])


@dataclass(slots=True)
class TrashLimits:
    """The limits of the trash of a storage, and the counts of the entries that were admitted, the newest first."""

    max_bytes: int
    """0 for no limit."""
    total_bytes: int = 0
    count: int = 0
    owner_counts: Counter[int] = field(default_factory=Counter)

    def admits(self, entry: TrashEntry, size: int) -> bool:
        """Count an entry. False if it exceeds a limit together with the newer entries."""
        self.count += 1
        self.owner_counts[entry.owner] += 1
        self.total_bytes += size
        return (
            self.count <= MAX_ENTRIES_PER_STORAGE
            and self.owner_counts[entry.owner] <= MAX_ENTRIES_PER_OWNER
            and not 0 < self.max_bytes < self.total_bytes
        )


async def _delete_excess(storage_id: int, driver: Driver, limits: TrashLimits) -> None:
    """Delete the oldest entries until the trash is within its limits."""
    start = ""
    while rows := await asyncio.to_thread(trash.list_of, storage_id, ROWS_PER_READ, start=start):
        excess: list[TrashEntry] = []
        for row in rows:
            size = await _measure(row, driver) if limits.max_bytes > 0 else 0
            excess += [] if limits.admits(row, size) else [row]
        await _delete(driver, excess)
        start = rows[-1].id


async def _measure(entry: TrashEntry, driver: Driver) -> int:
    """Return the bytes of an entry. The size of a folder is computed once."""
    if not entry.is_dir or entry.size > 0:
        return max(entry.size, 0)
    size, count = 0, 0
    folders = [get_path(entry)]
    while folders and count < MAX_MEASURED_ENTRIES:
        folder = folders.pop()
        with suppress(EntryNotFound):
            async for batch in driver.list(folder):
                count += len(batch)
                size += sum(item.size or 0 for item in batch if not item.is_dir)
                folders += [folder / item.name for item in batch if item.is_dir and not item.is_link]
    if size:
        await asyncio.to_thread(trash_claims.store_again, replace(entry, size=size))
    return size


async def _delete_orphaned_versions(storage_id: int, driver: Driver, days: int) -> None:
    """Delete the old versions of files that do not exist any more."""
    before, start, count = trash.make_first_id(time.time() - days * DAY_SECONDS), "", 0
    while count < MAX_VERSIONS_PER_SWEEP:
        rows, start = await asyncio.to_thread(trash.list_all_versions, storage_id, ROWS_PER_READ, start=start)
        await delete(driver, await _select_orphans([row for row in rows if row.id < before], driver))
        count += len(rows)
        if not start:
            return


async def _select_orphans(rows: Sequence[TrashEntry], driver: Driver) -> list[TrashEntry]:
    present: dict[str, bool] = {}
    for path in dict.fromkeys(row.path for row in rows):
        try:
            await driver.stat(TreePath(path))
            present[path] = True
        except EntryNotFound:
            present[path] = False
    return [row for row in rows if not present[row.path]]
