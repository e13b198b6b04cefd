"""What workers do with an input that names no task, and with a task that cannot be read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from mangrove.core.problems import Problem, RecordNotFound
from mangrove.core.telemetry import TASKS_ENDED, emit, log_warning
from mangrove.records.store.base import RecordConflict
from mangrove.records.store.encryption import DecryptionError
from mangrove.records.tasks import model as records
from mangrove.tasks.core.kinds import State
from mangrove.tasks.core.leases import Superseded

MAX_ID, MAX_SHOWN = 256, 200  # letters


def read_task_id(event: Any) -> str:
    """The id in what a worker is given; Superseded, as for a task that is gone, when there is none."""
    id = event.get("tid") if isinstance(event, dict) else None
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID:
        log_warning("a worker was started without a task", given=repr(event)[:MAX_SHOWN])
        raise Superseded
    return id


def give_up(id: str, problem: Problem, now: str) -> bool:
    """End a task that cannot be read, and never will be, at `now` (ISO 8601); what was staged for it is swept. There is
    no more to do for it: False."""
    log_warning("a task cannot be read and is ended", tid=id, reason=problem.message)
    try:
        task = records.get_unreadable(id)
        if task.removed:
            records.delete(id)
        elif not task.done:
            failed = replace(task.view, state=State.FAILED, error=problem.message, end_time=now)
            with suppress(DecryptionError):  # of the answer to what was written
                records.mark_done(task, failed)
            emit({TASKS_ENDED: 1}, State.FAILED.name.lower())
    except (RecordNotFound, RecordConflict):
        pass  # gone, or opened anew meanwhile
    return False
