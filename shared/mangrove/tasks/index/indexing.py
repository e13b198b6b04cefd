"""The index runs of the storages, and their progress as clients see it.

Administrators, changed storages, searches and the schedule request them. A storage has a single task, whose id is
derived from its own, so that two runs of it never exist at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, Problem, RecordNotFound, SearchUnavailable, UnreadableTask
from mangrove.core.telemetry import log_exception
from mangrove.records import index_changes, settings
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.records.storages import Storage
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import NewTask, Task
from mangrove.search.scope import is_indexed
from mangrove.search.segments import SegmentStore
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State, format_index_name
from mangrove.tasks.index.declaration import IndexCursor, IndexSpec
from mangrove.tasks.index.lists import ALL_LEVELS, IndexRun
from mangrove.tree import mounts
from mangrove.tree.operations.change_log import INTENT_EXPIRY_SECONDS

KIND = "index"
SERVICE_OWNER = 0  # the owner of these tasks
RUNNING, NOT_RUNNING = "index is running", "index is not running"
MAX_PATHS_PER_UPDATE = 100
MAX_WAITING_CHANGES = 500  # of a storage, after which a run starts
MAX_CHANGE_WAIT_SECONDS = 300.0  # for a run
MAX_STOP_SECONDS = 15.0  # until a run notices that it was stopped
SEARCH_UPDATE_INTERVAL_SECONDS = 10.0  # between two runs that searches request
RETRY_INTERVAL_SECONDS = 900.0  # from a run that failed to the next one without a request


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the index runs, as clients see it."""

    obj_count: int
    """Names in the indexes, and names that the first runs of storages have read."""
    is_done: bool
    last_done_time: str | None
    """ISO 8601."""
    error: str


def make_task_id(storage_id: int) -> str:
    """Return the id of the task of a storage."""
    return f"{KIND}-{storage_id:0{queue.ID_LENGTH - len(KIND) - 1}d}"


def _parse_storage_id(task_id: str) -> int:
    return int(task_id.rpartition("-")[2])


def load_cursor(task: Task) -> IndexCursor:
    """Return the cursor of a task; a new one if it cannot be read."""
    try:
        return IndexCursor.load(task.cursor)
    except UnreadableTask:
        return IndexCursor()


def _read_tasks(ids: Iterable[str]) -> list[Task]:
    return [task for batch in task_batches.split(ids) for task in task_batches.read(batch)]


def _read_tasks_by_status(done: bool) -> list[Task]:
    """Return the finished or the unfinished tasks of all storages."""
    return _read_tasks(row.id for row in task_lists.list_rows(KIND, done, SERVICE_OWNER))


def _list_unfinished_ids() -> list[str]:
    return [row.id for row in task_lists.list_rows(KIND, False, SERVICE_OWNER)]


async def _find_storages() -> list[Storage]:
    """Return the storages that should have an index."""
    config = await configuration.get()
    return [storage for storage in config.storages if is_indexed(storage, config.settings)]


async def _require_index() -> None:
    if not (await configuration.get()).settings.has_search_index:
        raise SearchUnavailable


async def build_all() -> None:
    """Rebuild the index of every storage. Raise BadRequest during a run."""
    await _require_index()
    specs = [IndexSpec(storage_id=storage.id) for storage in await _find_storages()]
    await asyncio.to_thread(_start_requested, specs)


async def update(paths: Sequence[str], max_depth: int = 0) -> None:
    """Update the index of folders of the tree, or without paths of changed folders. Raise BadRequest during a run.

    `max_depth`: the levels of folders that are read, including the folders themselves; 0 and less for all.
    """
    await _require_index()
    if len(paths) > MAX_PATHS_PER_UPDATE:
        raise BadRequest(f"{len(paths)} paths in one update, the maximum is {MAX_PATHS_PER_UPDATE}")
    table, indexed = await mounts.ready(), {storage.id for storage in await _find_storages()}
    levels = max_depth - 1 if max_depth > 0 else ALL_LEVELS
    paths_by_storage: dict[int, list[str]] = {id: [] for id in indexed if not paths}
    for path in map(TreePath, paths):
        holding = {mount.storage.id: path.below(mount.path) for mount in table.find_mounts(path)}
        below = {mount.storage.id: TreePath("/") for mount in table.mounts if mount.path.within(path)}
        for id, inner in (holding | below).items():
            if id in indexed:
                paths_by_storage.setdefault(id, []).append(inner)
    specs = [
        IndexSpec(storage_id=id, is_update=True, paths=inner_paths, levels=levels)
        for id, inner_paths in paths_by_storage.items()
    ]
    await asyncio.to_thread(_start_requested, specs)


def _start_requested(specs: Sequence[IndexSpec]) -> None:
    if _list_unfinished_ids():
        raise BadRequest(RUNNING)
    started = [_start(spec) for spec in specs]
    if specs and not any(started):
        raise BadRequest(RUNNING)  # another request was faster


def _start(spec: IndexSpec) -> bool:
    """Start the next run of a storage's task. Return False during a run."""
    id, storages = make_task_id(spec.storage_id), configuration.get_sync().storages
    mount = next((storage.mount_path for storage in storages if storage.id == spec.storage_id), "")
    new = NewTask(KIND, SERVICE_OWNER, queue.make_view(id, format_index_name(mount)), spec.dump())
    try:
        try:
            task = records.create(new)
        except RecordConflict:
            last = records.get(id)
            if not last.done:
                return False
            task = runs.renew(last, new)
    except (RecordConflict, RecordNotFound):  # another request was faster
        return False
    pass_checkpoint("queue.opened")
    platform().dispatcher.start(task, f"-{int(task.created)}")
    return True


async def stop() -> None:
    """End the runs, and leave the indexes as they were. Raise BadRequest if there is no run."""
    await _require_index()
    await asyncio.to_thread(_stop)


def _stop() -> None:
    if not _list_unfinished_ids():
        raise BadRequest(NOT_RUNNING)
    _cancel_all()


def _cancel_all() -> None:
    for task in _read_tasks_by_status(False):
        if not task.done:
            runs.mark_cancelled(task.id)
            platform().dispatcher.expedite(task)


async def clear() -> None:
    """Remove all indexes, and end the runs."""
    await _require_index()
    await asyncio.to_thread(_cancel_all)
    end = time.monotonic() + MAX_STOP_SECONDS
    while await asyncio.to_thread(_list_unfinished_ids):
        if time.monotonic() > end:
            raise BadRequest(RUNNING)
        await asyncio.sleep(0.05)
    specs = [IndexSpec(storage_id=storage.id, is_drop=True) for storage in await _find_storages()]
    await asyncio.to_thread(lambda: [_start(spec) for spec in specs])


async def read_progress() -> Progress:
    """Return the progress of the present runs, and the results of the last ones."""
    await _require_index()
    return _compute_progress(await asyncio.to_thread(_read_tasks_of_progress))


@asynccontextmanager
async def follow_changes() -> AsyncIterator[None]:
    """In the context storages are changed; then build or remove the indexes of those whose names may differ."""
    before = (await configuration.get()).storages
    try:
        yield
    finally:
        await _try(_follow_changes(before))


async def _follow_changes(before: Sequence[Storage]) -> None:
    config = await configuration.get()
    if config.settings.has_search_index and config.storages is not before:
        old, new = (
            {storage.id: _identify(storage) for storage in storages if is_indexed(storage, config.settings)}
            for storages in (before, config.storages)
        )
        changed = {id for id in old.keys() | new.keys() if old.get(id) != new.get(id)}
        await asyncio.to_thread(_follow_storages, changed)


def _identify(storage: Storage) -> tuple[str, ...]:
    """Return the data that decide which names of a storage are indexed."""
    return storage.driver, storage.addition, storage.mount_path


def _follow_storages(ids: Collection[int]) -> None:
    for id in ids:
        if not _start(IndexSpec(storage_id=id, is_gentle=True)):
            read = IndexChange(id, ChangeKind.READ, "/", True)
            index_changes.add(read)  # for the next run: the present one started before


def follow_setting() -> None:
    """Build or remove the indexes of all storages after the index was switched on or off."""
    config = configuration.cached()
    try:
        _refresh({storage.id for storage in config.storages if is_indexed(storage, config.settings)})
    except Problem:
        log_exception("index run could not be started")


async def request_build(storage_ids: Collection[int]) -> None:
    """Build the indexes that a search has found missing or damaged, for storages that should have one."""
    if storage_ids:
        await _try(asyncio.to_thread(_repair, storage_ids))


def _repair(storage_ids: Collection[int]) -> None:
    ids = [make_task_id(id) for id in storage_ids]
    tasks = {task.id: task for task in _read_tasks(ids)}
    for id in storage_ids:
        task = tasks.get(make_task_id(id))
        is_lost = task is None or load_cursor(task).indexed is not None
        if is_lost or (task is not None and _lacks_index(task) and not _has_just_ended(task)):
            _start(IndexSpec(storage_id=id, is_gentle=True))


async def request_update(storage_ids: Collection[int]) -> None:
    """Merge the changes of storages into their indexes, since a search read many of them."""
    if storage_ids:
        await _try(asyncio.to_thread(_update_changed, storage_ids, SEARCH_UPDATE_INTERVAL_SECONDS))


def _update_changed(storage_ids: Iterable[int], interval: float = 0.0) -> None:
    """Start a run for the changes of each storage that has an index, unless the last run ended less than `interval`
    seconds ago, or has just failed."""
    for task in _read_tasks([make_task_id(id) for id in storage_ids]):
        if task.done and load_cursor(task).indexed is not None and not _has_just_ended(task, interval):
            _start(IndexSpec(storage_id=_parse_storage_id(task.id), is_update=True, is_gentle=True))


async def _try(work: Awaitable[None]) -> None:
    """Do work beside the answer of a request, which does not depend on it."""
    try:
        await work
    except Problem:
        log_exception("index run could not be started")


async def refresh() -> None:
    """Start the runs that are due: for storages without an index, for many or old changes, for removed storages."""
    await asyncio.to_thread(_refresh, {storage.id for storage in await _find_storages()})


async def repair() -> None:
    """Build the indexes whose files are missing: a backup of the records may be newer than that of the indexes."""
    store, storage_ids = runtime.get(SegmentStore), list[int]()
    for task in await asyncio.to_thread(_read_tasks_by_status, True):
        id = _parse_storage_id(task.id)
        if load_cursor(task).indexed is not None and await store.read_manifest(id) is None:
            storage_ids.append(id)
    await request_build(storage_ids)


def _refresh(storage_ids: Set[int]) -> None:
    done = {_parse_storage_id(task.id): task for task in _read_tasks_by_status(True)}
    unfinished = {_parse_storage_id(id) for id in _list_unfinished_ids()}
    for id in storage_ids - done.keys() - unfinished:
        _start(IndexSpec(storage_id=id, is_gentle=True))
    for id, task in done.items():
        if id not in storage_ids or (_lacks_index(task) and not _has_just_ended(task)):
            _start(IndexSpec(storage_id=id, is_gentle=True))
    if storage_ids:
        _update_changed(_find_changed(storage_ids))


def _lacks_index(task: Task) -> bool:
    return task.view.state == State.FAILED and load_cursor(task).indexed is None


def _has_just_ended(task: Task, interval: float = 0.0) -> bool:
    """True if a run failed less than RETRY_INTERVAL_SECONDS ago, or ended less than `interval` seconds ago."""
    if not task.view.end_time:
        return False
    seconds = time.time() - datetime.fromisoformat(task.view.end_time).timestamp()
    return seconds < (RETRY_INTERVAL_SECONDS if task.view.state == State.FAILED else interval)


def _find_changed(storage_ids: Collection[int]) -> set[int]:
    """Return the storages with enough changes for a run."""
    now = time.time()
    waited, count, old = now - MAX_CHANGE_WAIT_SECONDS, Counter[int](), set[int]()
    limits = {ChangeKind.READ: now, ChangeKind.INTENT: now - 2 * INTENT_EXPIRY_SECONDS}
    for change in index_changes.read():
        if change.kind is not ChangeKind.INDEX:
            count[change.storage_id] += change.kind is not ChangeKind.INTENT
            if index_changes.read_seconds(change.number) < limits.get(change.kind, waited):
                old.add(change.storage_id)
    return {id for id in storage_ids if id in old or count[id] >= MAX_WAITING_CHANGES}


def _read_tasks_of_progress() -> dict[str, Task]:
    """Return the tasks of the present storages, and all unfinished ones."""
    ids = dict.fromkeys(_list_unfinished_ids())
    ids |= dict.fromkeys(make_task_id(storage.id) for storage in configuration.get_sync().storages)
    return {task.id: task for task in _read_tasks(ids)}


def _compute_progress(tasks: Mapping[str, Task]) -> Progress:
    count, finished, errors = 0, list[str](), list[str]()
    for task in tasks.values():
        cursor = load_cursor(task)
        is_building = cursor.attempt == task.attempt and cursor.is_whole and not cursor.walked
        count += (cursor.indexed or 0) if task.done else cursor.seen if is_building else cursor.indexed or cursor.seen
        finished += [cursor.finished] if cursor.finished else []
        if task.done and task.view.state == State.FAILED:
            errors.append(f"{task.view.name}: {task.view.error}")
    is_done = all(task.done for task in tasks.values())
    return Progress(count, is_done, max(finished, default=None), "; ".join(errors))


def save_progress(run: IndexRun, state: State) -> None:
    """Store the progress after this run, which has ended in `state`, in the setting that clients read."""
    view = replace(run.view, state=state)
    ended = replace(run.task, view=view, cursor=run.cursor.dump(), done=True)
    try:
        tasks = _read_tasks_of_progress()
        tasks.pop(ended.id, None)
        progress = _compute_progress(tasks if ended.removed else tasks | {ended.id: ended})
        settings.save({"index_progress": orjson.dumps(progress).decode()})
    except Problem:  # a client that asks for the progress gets it from the tasks
        log_exception("progress of the index could not be saved")
