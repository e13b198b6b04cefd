"""Slots for running tasks in the cloud: a record for each kind of task, in which each slot is a lease that expires.

Slots only limit the load. With a wrong clock there are a few more or fewer for a minute.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pynamodb.expressions.update import Action

from mangrove.records.store.base import RecordConflict, translate_errors
from mangrove.records.store.counters import Counter

LIFETIME = timedelta(hours=1)  # of the record, after its last change
MAX_ATTEMPTS = 8  # of a change that conflicts with another one
MAX_FIRST_DELAY_SECONDS = 0.02  # before the second attempt, doubled for each further one

Slots = dict[str, float]
"""The end of the slot of each holder, in seconds since the epoch."""


def acquire(kind: str, holder: str, limit: int, seconds: float) -> bool:
    """Acquire one of `limit` slots of a kind, or renew it, for `seconds`. Return False if all are taken."""

    def add(slots: Slots) -> bool:
        if holder not in slots and len(slots) >= limit:
            return False
        slots[holder] = round(time.time() + seconds, 3)
        return True

    return _change(kind, add)


def release(kind: str, holder: str) -> None:
    """Release a slot. If that fails, it expires."""
    _change(kind, lambda slots: slots.pop(holder, None) is not None)


def list_holders(kind: str) -> set[str]:
    """Return the holders of slots that have not expired."""
    record, now = Counter.find(_make_key(kind)), time.time()
    slots: Slots = (record.changes if record else None) or {}
    return {holder for holder, until in slots.items() if until > now}


def _make_key(kind: str) -> str:
    return f"slots#{kind}"


def _change(kind: str, change: Callable[[Slots], bool]) -> bool:
    """Change the slots that have not expired. Return True if `change` returned True and the write succeeded."""
    key = _make_key(kind)
    for attempt in range(MAX_ATTEMPTS):
        record = Counter.find(key)
        now = time.time()
        stored: Slots = (record.changes if record else None) or {}
        slots = {holder: until for holder, until in stored.items() if until > now}
        if not change(slots):
            return False
        condition = Counter.key.does_not_exist() if record is None else Counter.value == record.value
        actions: list[Action] = [
            Counter.value.set(int(record.value) + 1 if record else 1),
            Counter.changes.set(slots),
            Counter.expires.set(datetime.now(UTC) + LIFETIME),
        ]
        try:
            with translate_errors():
                Counter(key).update(actions=actions, condition=condition)
            return True
        except RecordConflict:
            time.sleep(random.uniform(0, MAX_FIRST_DELAY_SECONDS * 2**attempt))
    return False
