"""The index runs of the storages: asked for by administrators, by storages that change, by searches, and by the clock.

A storage has one task, whose id follows from its own: whoever opens the next run of it first has opened it, and there
are never two.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Sequence, Set
from contextlib import asynccontextmanager
from datetime import datetime

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, Problem, RecordNotFound, SearchUnavailable
from mangrove.core.telemetry import log_exception
from mangrove.records import index_changes
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.records.storages import Storage
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import NewTask, Task
from mangrove.search.scope import is_indexed
from mangrove.search.segments import SegmentStore
from mangrove.tasks.core import dispatch, queue
from mangrove.tasks.core.kinds import State, format_index_name
from mangrove.tasks.index import progress as index_progress
from mangrove.tasks.index.declaration import IndexSpec
from mangrove.tasks.index.lists import ALL
from mangrove.tasks.index.progress import KIND, SERVICE, Progress, load_cursor, make_task_id, read_tasks
from mangrove.tree import mounts
from mangrove.tree.operations.change_log import INTENT_EXPIRY_SECONDS

RUNNING, NOT_RUNNING = "index is running", "index is not running"
MOST_PATHS = 100  # of one update that is asked for
WAITING_CHANGES = 500  # of one storage: worth a run
WAITING_SECONDS = 300.0  # that a change waits for a run at most
CLEAR_SECONDS = 15.0  # that a run takes at most to see that it was stopped
SOON_SECONDS = 10.0  # from a run to the next one that searches ask for: a change has to be some seconds old
AGAIN_SECONDS = 900.0  # from a run that failed to the next one that nobody asked for


async def _find_storages() -> list[Storage]:
    """The storages that are to have an index."""
    now = await configuration.get()
    return [storage for storage in now.storages if is_indexed(storage, now.settings)]


async def _require_index() -> None:
    if not (await configuration.get()).settings.has_search_index:
        raise SearchUnavailable


async def build_all() -> None:
    """Index every storage anew; BadRequest while a run is under way."""
    await _require_index()
    specs = [IndexSpec(storage_id=storage.id) for storage in await _find_storages()]
    await asyncio.to_thread(_open_asked, specs)


async def update(paths: Sequence[str], max_depth: int = 0) -> None:
    """Read folders of the tree again with what is below them, `max_depth` levels in all (0 and less: all of them), and
    lay them over the index; without paths, what changed. BadRequest while a run is under way."""
    await _require_index()
    if len(paths) > MOST_PATHS:
        raise BadRequest(f"{len(paths)} paths in one update, at most {MOST_PATHS} are read")
    table, indexed = await mounts.ready(), {storage.id for storage in await _find_storages()}
    levels = max_depth - 1 if max_depth > 0 else ALL
    wanted: dict[int, list[str]] = {id: [] for id in indexed if not paths}
    for path in map(TreePath, paths):
        holding = {mount.storage.id: path.below(mount.path) for mount in table.find_mounts(path)}
        below = {mount.storage.id: TreePath("/") for mount in table.mounts if mount.path.within(path)}
        for id, inner in (holding | below).items():
            if id in indexed:
                wanted.setdefault(id, []).append(inner)
    specs = [IndexSpec(storage_id=id, is_update=True, paths=some, levels=levels) for id, some in wanted.items()]
    await asyncio.to_thread(_open_asked, specs)


def _open_asked(specs: Sequence[IndexSpec]) -> None:
    if _list_undone():
        raise BadRequest(RUNNING)
    opened = [_open(spec) for spec in specs]
    if specs and not any(opened):
        raise BadRequest(RUNNING)  # another request was quicker


def _list_undone() -> list[str]:
    return [row.id for row in task_lists.list_rows(KIND, False, SERVICE)]


def _open(spec: IndexSpec) -> bool:
    """Open the next run of a storage's task and start it; False while one is under way."""
    id, now = make_task_id(spec.storage_id), configuration.get_sync()
    mount = next((one.mount_path for one in now.storages if one.id == spec.storage_id), "")
    new = NewTask(KIND, SERVICE, queue.make_view(id, format_index_name(mount)), spec.dump())
    try:
        try:
            task = records.create(new)
        except RecordConflict:
            last = records.get(id)
            if not last.done:
                return False
            task = records.renew(last, new)
    except (RecordConflict, RecordNotFound):  # another request was quicker
        return False
    pass_checkpoint("queue.opened")
    dispatch.start(task, f"-{int(task.created)}")
    return True


async def stop() -> None:
    """End the runs under way, and leave the indexes as they were; BadRequest when there is none."""
    await _require_index()
    await asyncio.to_thread(_stop)


def _stop() -> None:
    if not _list_undone():
        raise BadRequest(NOT_RUNNING)
    _cancel_all()


def _cancel_all() -> None:
    for task in read_tasks(False):
        if not task.done:
            records.mark_cancelled(task.id)
            dispatch.expedite(task)


async def clear() -> None:
    """Forget all indexes, also those under way, until somebody asks for them anew."""
    await _require_index()
    await asyncio.to_thread(_cancel_all)
    end = time.monotonic() + CLEAR_SECONDS
    while await asyncio.to_thread(_list_undone):
        if time.monotonic() > end:
            raise BadRequest(RUNNING)
        await asyncio.sleep(0.05)
    specs = [IndexSpec(storage_id=storage.id, is_drop=True) for storage in await _find_storages()]
    await asyncio.to_thread(lambda: [_open(spec) for spec in specs])


async def read_progress() -> Progress:
    """How far the runs under way came, and how the last ones ended."""
    await _require_index()
    return await asyncio.to_thread(index_progress.read)


@asynccontextmanager
async def follow_changes() -> AsyncIterator[None]:
    """Storages are changed within: the index of each whose names may be others is built anew, or dropped."""
    before = (await configuration.get()).storages
    try:
        yield
    finally:
        await _try(_follow_changes(before))


async def _follow_changes(before: Sequence[Storage]) -> None:
    now = await configuration.get()
    if now.settings.has_search_index and now.storages is not before:
        old, new = (
            {storage.id: _identify(storage) for storage in storages if is_indexed(storage, now.settings)}
            for storages in (before, now.storages)
        )
        changed = {id for id in old.keys() | new.keys() if old.get(id) != new.get(id)}
        await asyncio.to_thread(_follow_storages, changed)


def _identify(storage: Storage) -> tuple[str, ...]:
    """What the names in a storage depend on, and which of them are indexed."""
    return storage.driver, storage.addition, storage.mount_path


def _follow_storages(ids: Collection[int]) -> None:
    for id in ids:
        if not _open(IndexSpec(storage_id=id, is_gentle=True)):
            read = IndexChange(id, ChangeKind.READ, "/", True)
            index_changes.add(read)  # the run under way began before; this is for the next one


def follow_setting() -> None:
    """The index was switched on or off: the indexes of all storages are built, or dropped."""
    now = configuration.cached()
    try:
        _refresh({storage.id for storage in now.storages if is_indexed(storage, now.settings)})
    except Problem:
        log_exception("an index run could not be opened")


async def request_build(storage_ids: Collection[int]) -> None:
    """A search found no index of these storages, or a damaged one: it is built anew where there should be one."""
    if storage_ids:
        await _try(asyncio.to_thread(_repair, storage_ids))


def _repair(storage_ids: Collection[int]) -> None:
    ids = [make_task_id(id) for id in storage_ids]
    tasks = {task.id: task for some in task_batches.split(ids) for task in task_batches.read(some)}
    for id in storage_ids:
        task = tasks.get(make_task_id(id))
        is_lost = task is None or load_cursor(task).indexed is not None
        if is_lost or (task is not None and _lacks_index(task) and not _has_just_ended(task)):
            _open(IndexSpec(storage_id=id, is_gentle=True))


async def request_update(storage_ids: Collection[int]) -> None:
    """A search met many changes of these storages, or some that it cannot know: a run merges them."""
    if storage_ids:
        await _try(asyncio.to_thread(_update_changed, storage_ids, SOON_SECONDS))


def _update_changed(storage_ids: Iterable[int], soon: float = 0.0) -> None:
    """Open a run for the changes of each storage that has an index, unless the last one failed a moment ago, or ended
    `soon` seconds ago."""
    ids = [make_task_id(id) for id in storage_ids]
    for some in task_batches.split(ids):
        for task in task_batches.read(some):
            if task.done and load_cursor(task).indexed is not None and not _has_just_ended(task, soon):
                _open(IndexSpec(storage_id=_parse_storage_id(task.id), is_update=True, is_gentle=True))


async def _try(work: Awaitable[None]) -> None:
    """What a request has brought about beside what it asked for: it has its answer whatever comes of that."""
    try:
        await work
    except Problem:
        log_exception("an index run could not be opened")


async def refresh() -> None:
    """Open the runs that are due: of storages without an index, of many or old changes, of what is no more."""
    wanted = {storage.id for storage in await _find_storages()}
    await asyncio.to_thread(_refresh, wanted)


async def repair() -> None:
    """Index anew the storages whose index is gone: what keeps the records may not have kept that."""
    store, gone = runtime.get(SegmentStore), list[int]()
    for task in await asyncio.to_thread(read_tasks, True):
        id = _parse_storage_id(task.id)
        if load_cursor(task).indexed is not None and await store.read_manifest(id) is None:
            gone.append(id)
    await request_build(gone)


def _refresh(wanted: Set[int]) -> None:
    done = {_parse_storage_id(task.id): task for task in read_tasks(True)}
    undone = {_parse_storage_id(id) for id in _list_undone()}
    for id in wanted - done.keys() - undone:
        _open(IndexSpec(storage_id=id, is_gentle=True))
    for id, task in done.items():
        is_due = id not in wanted or (_lacks_index(task) and not _has_just_ended(task))
        if is_due:
            _open(IndexSpec(storage_id=id, is_gentle=True))
    if wanted:
        _update_changed(_find_changed(wanted))


def _lacks_index(task: Task) -> bool:
    return task.view.state == State.FAILED and load_cursor(task).indexed is None


def _has_just_ended(task: Task, soon: float = 0.0) -> bool:
    """Whether a run failed less than AGAIN_SECONDS ago, or ended less than `soon` seconds ago."""
    if not task.view.end_time:
        return False
    seconds = time.time() - datetime.fromisoformat(task.view.end_time).timestamp()
    return seconds < (AGAIN_SECONDS if task.view.state == State.FAILED else soon)


def _find_changed(wanted: Collection[int]) -> set[int]:
    """The storages whose changes are worth a run."""
    now = time.time()
    waited, count, old = now - WAITING_SECONDS, Counter[int](), set[int]()
    limits = {ChangeKind.READ: now, ChangeKind.INTENT: now - 2 * INTENT_EXPIRY_SECONDS}
    for change in index_changes.read():
        if change.kind is not ChangeKind.INDEX:
            count[change.storage_id] += change.kind is not ChangeKind.INTENT
            if index_changes.read_seconds(change.number) < limits.get(change.kind, waited):
                old.add(change.storage_id)
    return {id for id in wanted if id in old or count[id] >= WAITING_CHANGES}


def _parse_storage_id(task_id: str) -> int:
    return int(task_id.rpartition("-")[2])
