"""How many tasks of a kind are at work in the cloud: a record for each kind, in which every slot is a lease that ends.

A slot bounds load, and decides nothing else: when a clock is wrong, there are some more or fewer for a minute.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.update import Action

from mangrove.records.store.base import RecordConflict, translate_errors
from mangrove.records.store.counters import Counter

LIFETIME = timedelta(hours=1)  # of the record, after its last change
TRIES = 8  # of a change that meets another one
PAUSE = 0.02  # seconds, at most, before the second try; then twice as long each time

Slots = dict[str, float]  # holder → until when, in seconds since the epoch


def take(kind: str, holder: str, most: int, seconds: float) -> bool:
    """Hold one of the `most` slots of a kind for `seconds`, or go on holding it; whether there was one."""

    def add(slots: Slots) -> bool:
        if holder not in slots and len(slots) >= most:
            return False
        slots[holder] = round(time.time() + seconds, 3)
        return True

    return _change(kind, add)


def release(kind: str, holder: str) -> None:
    """Give a slot up. Where that does not come about, it ends by itself."""
    _change(kind, lambda slots: slots.pop(holder, None) is not None)


def _change(kind: str, change: Callable[[Slots], bool]) -> bool:
    """Change the slots that have not ended; whether `change` wanted that, and it came about."""
    key = f"slots#{kind}"
    for attempt in range(TRIES):
        found = _find(key)
        now = time.time()
        slots = {one: until for one, until in ((found.changes if found else None) or {}).items() if until > now}
        if not change(slots):
            return False
        condition = Counter.key.does_not_exist() if found is None else Counter.value == found.value
        actions: list[Action] = [
            Counter.value.set(int(found.value) + 1 if found else 1),
            Counter.changes.set(slots),
            Counter.expires.set(datetime.now(UTC) + LIFETIME),
        ]
        try:
            with translate_errors():
                Counter(key).update(actions=actions, condition=condition)
            return True
        except RecordConflict:
            time.sleep(random.uniform(0, PAUSE * 2**attempt))
    return False


def _find(key: str) -> Counter | None:
    with translate_errors():
        try:
            return Counter.get(key, consistent_read=True)
        except DoesNotExist:
            return None
