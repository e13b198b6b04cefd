"""Remove records and files that are not needed any more: old tasks, staging without a task, indexes without a storage,
abandoned uploads, old entries of the trash, ended sessions, counters, locks and old
actions of the audit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Set
from datetime import datetime

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, RecordNotFound
from mangrove.core.telemetry import OLDEST_TASK_AGE, emit
from mangrove.drivers import base
from mangrove.records.store import counters
from mangrove.records.store.base import delete_expired
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks.lists import UnfinishedPage
from mangrove.records.tasks.model import Task
from mangrove.search.segments import SegmentStore
from mangrove.tasks.core import queue, staging
from mangrove.tasks.core.partials import sweep_partials
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.upload.sessions import sweep_sessions
from mangrove.tree.trash import repair

DAY_SECONDS = 24 * 3600
DAILY_SECONDS = DAY_SECONDS - 1800  # between two daily clean-ups; half of the hour between two sweeps is for delays
STALLED_SECONDS = 3600  # without a sign of a worker; far longer than any wait of a machine
NEVER_STARTED_SECONDS = 1200  # longer than the first worker needs to write its lease
ORPHAN_SECONDS = 24 * 3600  # an upload may be received so long before its task is enqueued


async def sweep() -> None:
    """Remove everything that is not needed any more. It may run at any time, and twice concurrently."""
    is_daily = await asyncio.to_thread(_claim_daily)
    if is_daily:
        await _delete_old()
    if oldest := await asyncio.to_thread(_restart_stalled, time.time(), is_daily):
        emit({OLDEST_TASK_AGE: oldest})
    await _remove_orphans(time.time() - ORPHAN_SECONDS, await sweep_sessions())
    await sweep_partials()
    await repair.sweep()
    await runtime.get(SegmentStore).drop_unknown({storage.id for storage in (await configuration.get()).storages})
    if not platform().expires_records:
        await asyncio.to_thread(_delete_expired_records)
    if platform().thumbnails_folder is not None:
        from mangrove.tree.operations import thumbnails  # no function makes thumbnails

        await asyncio.to_thread(thumbnails.sweep)


def _claim_daily() -> bool:
    """Return True if this sweep does what is done once a day where the records engine deletes expired records itself.

    There the work takes many calls, and finds little.
    """
    return not platform().expires_records or counters.claim_once("daily sweep", DAILY_SECONDS)


async def _delete_old() -> None:
    """Delete tasks and actions of the audit that are older than the settings allow."""
    settings = (await configuration.get()).settings
    await asyncio.to_thread(_delete_old_tasks, time.time() - settings.task_retention_days * DAY_SECONDS)
    if settings.audit_days:
        from mangrove.records import audit  # once a day

        await asyncio.to_thread(audit.delete_before, time.time() - settings.audit_days * DAY_SECONDS)


def _delete_expired_records() -> None:
    from mangrove.records.audit import AuditRecord  # no function needs them
    from mangrove.records.login_challenges import ChallengeRecord
    from mangrove.records.sessions import SessionRecord
    from mangrove.records.webdav_locks import LockRecord

    for model in (SessionRecord, ChallengeRecord, counters.Counter, LockRecord, AuditRecord):
        delete_expired(model)


def _delete_old_tasks(before: float) -> None:
    """Delete the tasks that ended before a time.

    DynamoDB deletes them days later, the bundled records engine never does.
    """
    for kind in (kind.name for kind in KINDS.values() if kind.is_listed):
        for ids in task_batches.split(task_lists.list_ended(kind, before)):
            task_batches.delete_done(kind, ids)


def _restart_stalled(now: float, with_removed: bool) -> float:
    """Start the tasks that no worker has held for long: their execution ended without settling them. Return the age of
    the oldest task in seconds, 0 if there is none.

    `with_removed`: also those that people have removed from their lists, which only clean up. A lease may lie in the
    future after a clock was wrong.
    """
    oldest = 0.0
    for kind in KINDS:
        page: UnfinishedPage | None = task_lists.list_unfinished(kind)
        while page is not None:
            for ids in task_batches.split(page.ids):
                for task in task_batches.read(ids):
                    oldest = max(oldest, _get_age(task, now))
                    limit = STALLED_SECONDS if task.lease.until else NEVER_STARTED_SECONDS
                    if not task.done and abs(now - task.touched) > limit:
                        platform().dispatcher.start(task, f"-{int(now)}")
            start = page.next_start
            has_more = start is not None and (with_removed or not start.removed)
            page = task_lists.list_unfinished(kind, start) if has_more else None
    return oldest


def _get_age(task: Task, now: float) -> float:
    """Return the seconds since a task was created, or since its last run started if it was retried."""
    if task.done:
        return 0.0
    if task.attempt and task.view.start_time:
        return now - datetime.fromisoformat(task.view.start_time).timestamp()
    return now - task.created


async def _remove_orphans(before: float, reserved_names: Set[str]) -> None:
    storage = await staging.driver()
    async for batch in storage.list(base.ROOT):
        for entry in batch:
            if entry.name not in reserved_names and await _is_orphan(storage, entry, before):
                await staging.clear(entry.name)


async def _is_orphan(storage: base.Driver, folder: base.Entry, before: float) -> bool:
    """True if no task owns the folder and nothing was stored in it since `before`.

    An empty folder whose own time is not known may be that of an upload in progress. If it is not, the lifecycle rule
    of the bucket removes it.
    """
    stage, newest = folder.name, folder.modified
    for owner in (stage.partition(".")[0], queue.get_chained_id(stage)):
        try:
            await asyncio.to_thread(records.get, owner)
            return False
        except RecordNotFound:
            pass
    try:
        async for batch in storage.list(TreePath(f"/{stage}")):
            if any(entry.name == staging.PINNED for entry in batch):
                return False
            newest = max([newest, *(entry.modified for entry in batch)])
    except EntryNotFound:
        return False  # its task has ended meanwhile
    return 0 < newest < before
