"""Exclusive locks on names of files, acquired and released by conditional writes.

The holder of a lock sends heartbeats. Clocks are not compared: a process that sees the same heartbeat for long enough
takes the lock over.

The rule of take-over is that of the leases of tasks. Those are attributes of the task's record, so that a step saves
its progress and its lease in one write; these are records of their own, of which one call writes many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import RecordConflict, transaction, translate_errors
from mangrove.records.store.counters import Counter

LIFETIME = timedelta(hours=1)  # until the lock of a dead holder is deleted, unless it is taken over before
MAX_NAMES_PER_CALL = 100  # the limit of DynamoDB


class Heartbeat(NamedTuple):
    """The last heartbeat of the holder of a lock."""

    holder: str
    number: int


def acquire(name: str, holder: str, dead: Heartbeat | None = None) -> bool:
    """Lock a name that is free, or whose last heartbeat is still `dead`. Return True if `holder` holds it now."""
    free = _is_free_for(holder)
    if dead is not None:
        free |= (Counter.holder == dead.holder) & (Counter.value == dead.number)
    try:
        with translate_errors():
            _make_record(name).update(actions=_make_first_actions(holder), condition=free)
    except RecordConflict:
        return False
    return True


def acquire_all(names: Sequence[str], holder: str) -> bool:
    """Lock free names, at most MAX_NAMES_PER_CALL: all of them, or none. Return True if `holder` holds them now."""

    def add(write: TransactWrite, record: Counter) -> None:
        write.update(record, actions=_make_first_actions(holder), condition=_is_free_for(holder))

    try:
        _write_all(names, add)
    except RecordConflict:
        return False
    return True


def _is_free_for(holder: str) -> Condition:
    condition: Condition = Counter.key.does_not_exist() | (Counter.holder == holder)
    return condition


def _make_first_actions(holder: str) -> list[Action]:
    return [Counter.holder.set(holder), Counter.value.set(0), _make_end()]


def find(name: str) -> Heartbeat | None:
    """Return the last heartbeat for a name, None if it is free."""
    record = Counter.find(_make_record(name).key)
    return None if record is None else Heartbeat(record.holder, int(record.value))


def send_heartbeat(names: Sequence[str], holder: str) -> None:
    """Show that the holder is alive. Raise RecordConflict if it lost one of the names; at most MAX_NAMES_PER_CALL."""

    def add(write: TransactWrite, record: Counter) -> None:
        write.update(record, actions=_make_heartbeat(), condition=Counter.holder == holder)

    if len(names) == 1:
        with translate_errors():
            _make_record(names[0]).update(actions=_make_heartbeat(), condition=Counter.holder == holder)
        return
    try:
        _write_all(names, add)
    except RecordConflict as conflict:
        if not any(conflict.failed):
            raise RecordsUnavailable from conflict  # another transaction was in progress: retry
        raise


def _make_heartbeat() -> list[Action]:
    return [Counter.value.add(1), _make_end()]


def release(names: Sequence[str], holder: str) -> None:
    """Unlock names that `holder` holds; at most MAX_NAMES_PER_CALL."""

    def add(write: TransactWrite, record: Counter) -> None:
        write.delete(record, condition=Counter.holder == holder)

    if len(names) > 1:
        try:
            _write_all(names, add)
            return
        except RecordConflict:
            pass  # the holder does not have one of them: unlock each separately
    for name in names:
        try:
            with translate_errors():
                _make_record(name).delete(condition=Counter.holder == holder)
        except RecordConflict:
            pass


def _write_all(names: Sequence[str], add: Callable[[TransactWrite, Counter], None]) -> None:
    with translate_errors(), transaction(Counter) as write:
        for name in names:
            add(write, _make_record(name))


def _make_record(name: str) -> Counter:
    return Counter(f"hold#{name}")


def _make_end() -> Action:
    return Counter.expires.set(datetime.now(UTC) + LIFETIME)
