"""Counters that many processes increment: ids, and failures, which expire."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime

from pynamodb.attributes import JSONAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import (
    MAX_ATTEMPTS,
    Record,
    RecordConflict,
    TableMeta,
    table_name,
    transaction,
    translate_errors,
)

MAX_CLOCK_DIFFERENCE_SECONDS = 60.0  # between two instances; a later expiry was set before a clock was set back


class Counter(Record):
    """A counter, a name lock, the slots of a kind of tasks, or a note of `versions`."""

    class Meta(TableMeta):
        table_name = table_name("counters")

    key = UnicodeAttribute(hash_key=True)
    value = NumberAttribute(default=0)
    until = NumberAttribute(null=True)
    holder = UnicodeAttribute(null=True)  # of a name lock
    changes = JSONAttribute(null=True)  # of a note: ids by kind; of slots: end by holder
    expires = TTLAttribute(null=True)  # None: never
    program = UnicodeAttribute(null=True)  # of the schema: the oldest program that supports it


def next_id(kind: str) -> int:
    """Return a new id, ascending from 1."""
    counter = Counter(f"id#{kind}")
    with translate_errors():
        counter.update(actions=[Counter.value.add(1)])
    return int(counter.value)


def read(keys: Collection[str], mark: str, seconds: int) -> tuple[dict[str, int], bool]:
    """Return the failures under each key that have not expired after `seconds`, and True if `mark` is remembered; in
    one call."""
    with translate_errors():
        stored_keys = [*(f"failure#{key}" for key in keys), f"mark#{mark}"]
        counters = {counter.key: counter for counter in Counter.batch_get(stored_keys, consistent_read=True)}
    now = time.time()
    counts = {key: _count(counters.get(f"failure#{key}"), now, seconds) for key in keys}
    marked = counters.get(f"mark#{mark}")
    return counts, marked is not None and (marked.until or 0) > now


def _count(counter: Counter | None, now: float, seconds: int) -> int:
    if counter is None or not 0 < (counter.until or 0) - now <= seconds + MAX_CLOCK_DIFFERENCE_SECONDS:
        return 0
    return int(counter.value)


def add_failure(key: str, seconds: int) -> int:
    """Count a failure under `key` and return the count, which expires `seconds` after the last failure."""
    now = time.time()
    counter = Counter(f"failure#{key}")
    try:
        with translate_errors():
            counter.update(
                actions=[Counter.value.add(1), *make_end(now, seconds)],
                condition=Counter.until.between(now, now + seconds + MAX_CLOCK_DIFFERENCE_SECONDS),
            )
    except RecordConflict:
        try:
            with translate_errors():
                counter.update(
                    actions=[Counter.value.set(1), *make_end(now, seconds)], condition=_is_over(now, seconds)
                )
        except RecordConflict:
            return add_failure(key, seconds)  # another process began the count at the same time
    return int(counter.value)


def _is_over(now: float, seconds: int) -> Condition:
    """Return the condition that a count has expired, or that it would expire too late, because a fast clock counted
    it.
    """
    over: Condition = (
        Counter.until.does_not_exist()
        | (Counter.until < now)
        | (Counter.until > now + seconds + MAX_CLOCK_DIFFERENCE_SECONDS)
    )
    return over


def make_end(now: float, seconds: int) -> list[Action]:
    return [Counter.until.set(now + seconds), Counter.expires.set(datetime.fromtimestamp(now + seconds + 1, UTC))]


def clear_failures(key: str, limit: int, seconds: int, mark: str, mark_seconds: int) -> bool:
    """Delete the failures under `key` and remember `mark` for `mark_seconds`, in one call. Return False and change
    nothing if there are `limit` failures or more."""
    now = time.time()
    is_below = Counter.value.does_not_exist() | (Counter.value < limit) | _is_over(now, seconds)
    for attempt in range(MAX_ATTEMPTS):
        try:
            with translate_errors(), transaction(Counter) as write:
                write.delete(Counter(f"failure#{key}"), condition=is_below)
                write.update(Counter(f"mark#{mark}"), actions=[Counter.value.set(1), *make_end(now, mark_seconds)])
            return True
        except RecordConflict as conflict:
            if any(conflict.failed):
                return False
            time.sleep(0.01 * (attempt + 1))  # another process wrote them at the same time
    raise RecordsUnavailable


def claim_once(key: str, seconds: int) -> bool:
    """Return True if this is the first call for `key` within `seconds`."""
    now = time.time()
    free = Counter.key.does_not_exist() | (Counter.until < now)  # if the clock is set back: never rather than twice
    try:
        with translate_errors():
            Counter(f"once#{key}").update(actions=[Counter.value.set(1), *make_end(now, seconds)], condition=free)
    except RecordConflict:
        return False
    return True
