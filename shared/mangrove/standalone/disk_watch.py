"""Local storages with the option `watch_disk`: what other programs change on the disk is seen at once.

Every other storage, one with too many folders, and one whose watch fails are as they are without it: a listing notices
the new time of its folder, and the index notices the listing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_event, log_warning
from mangrove.drivers.local.options import LocalOptions
from mangrove.drivers.part_names import is_part, leads_to_trash
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.tree import mounts
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations import journal

MAX_WATCHED_FOLDERS = 50_000  # of all storages together; the kernel has a limit too
MAX_WATCHED_STORAGES = 32
MAX_FOLDERS_PER_BATCH = 200  # that changed together; more count as a change of the whole storage
MAX_CHANGES_PER_BATCH = 5_000  # the queue of the kernel may have overflowed
GROUP_MILLISECONDS = 300  # in which changes are collected
STEP_MILLISECONDS = 50
TIMEOUT_MILLISECONDS = 500  # after which a watch without changes shows that it works
POLL_INTERVAL_SECONDS = 1.0  # between two looks at the configuration
RETRY_SECONDS = 300.0  # after a watch that failed
MAX_USER_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")


@dataclass(frozen=True, slots=True)
class WatchedRoot:
    """The folder of a storage on the disk."""

    mount: Mount
    folder: str

    def find_inner(self, path: str) -> TreePath | None:
        """Return a path of the disk as a path inside the storage; None if it is not shown."""
        inner = os.path.relpath(path, self.folder)
        if inner.startswith("..") or not inner.isprintable():
            return None
        shown = TreePath("/") if inner == "." else TreePath(f"/{inner}")
        return None if is_part(shown.name) or leads_to_trash(shown) else shown


async def run() -> None:
    """Watch the storages that have the option, until cancelled."""
    watching: asyncio.Task[None] | None = None
    watched: Mapping[int, WatchedRoot] = {}
    version = -1
    try:
        while True:
            present = change_counters().read(Topic.CONFIGURATION)
            if present != version:
                version = present
                roots = find_roots((await mounts.ready()).mounts)
                if roots != watched:
                    watched = roots
                    await _cancel(watching)
                    watching = asyncio.create_task(_watch_until_cancelled(roots)) if roots else None
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
    finally:
        await _cancel(watching)


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


def find_roots(all_mounts: Iterable[Mount]) -> dict[int, WatchedRoot]:
    """Return the folders to watch by the ids of their storages; at most MAX_WATCHED_STORAGES."""
    roots: dict[int, WatchedRoot] = {}
    for mount in all_mounts:
        if mount.storage.driver != "Local" or len(roots) >= MAX_WATCHED_STORAGES:
            continue
        try:
            folder = LocalOptions.parse(mount.storage.addition).watched_folder
        except Problem:
            continue  # its status has the reason
        if folder:
            roots[mount.storage.id] = WatchedRoot(mount, os.path.realpath(folder))
    return roots


async def _watch_until_cancelled(roots: Mapping[int, WatchedRoot]) -> None:
    while True:
        chosen = await asyncio.to_thread(choose_watchable, list(roots.values()))
        try:
            if chosen:
                await _watch(chosen)
        except (OSError, RuntimeError, Problem) as error:  # no watches are left, or the records do not answer
            log_warning("watch of the disk failed; changes are noticed by listings", reason=str(error)[:200])
        await asyncio.sleep(RETRY_SECONDS)


def choose_watchable(roots: Iterable[WatchedRoot]) -> list[WatchedRoot]:
    """Return the folders that exist and together have few enough folders, and log the others."""
    left, chosen = read_max_watches(), list[WatchedRoot]()
    for root in roots:
        count = count_folders(root.folder, left)
        if count is None:
            log_warning("storage has too many folders to watch", mount=root.mount.path, limit=left)
        elif count:
            left -= count
            chosen.append(root)
    return chosen


def read_max_watches() -> int:
    """Return the number of folders that may be watched: half of what the kernel allows a user, at most the limit."""
    try:
        return min(int(MAX_USER_WATCHES.read_text()) // 2, MAX_WATCHED_FOLDERS)
    except (OSError, ValueError):
        return MAX_WATCHED_FOLDERS


def count_folders(root: str, limit: int) -> int | None:
    """Return the number of folders at and below `root`, 0 if it does not exist, None for more than `limit`."""
    count = 0
    for _ in os.walk(root):
        count += 1
        if count > limit:
            return None
    return count


async def _watch(roots: list[WatchedRoot]) -> None:
    from watchfiles import awatch  # imported here: few services watch a disk

    is_watching = False
    async for changes in awatch(
        *(root.folder for root in roots), watch_filter=None, debounce=GROUP_MILLISECONDS, step=STEP_MILLISECONDS,
        recursive=True, ignore_permission_denied=True, rust_timeout=TIMEOUT_MILLISECONDS, yield_on_timeout=True,
    ):  # fmt: skip
        if not is_watching:
            is_watching = True
            log_event("disk is watched", storages=len(roots))
            for root in roots:
                listings().forget_below(root.mount.storage.id)  # it may have changed while it was not watched
        paths = [path for _, path in changes]
        for root in roots:
            await report(root, [path for path in paths if path == root.folder or path.startswith(f"{root.folder}/")])


async def report(root: WatchedRoot, paths: list[str]) -> None:
    """Drop the listings of changed folders in all processes, and read them for the index."""
    folders = {inner.parent for path in paths if (inner := root.find_inner(path)) is not None}
    storage_id = root.mount.storage.id
    if len(folders) > MAX_FOLDERS_PER_BATCH or len(paths) > MAX_CHANGES_PER_BATCH:
        listings().forget_below(storage_id)
        await journal.note(IndexChange(storage_id, ChangeKind.READ, "/", True))
        return
    for folder in folders:
        listings().forget(storage_id, folder)
    for folder in sorted(folders):
        try:
            await listings().get(StoragePath(await root.mount.get_driver(), folder, root.mount))
        except Problem:
            pass  # it has gone: its parent has changed too
