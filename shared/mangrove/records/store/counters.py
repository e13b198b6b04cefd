"""Numbers that many processes raise together: ids, failures that expire."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime

from pynamodb.attributes import JSONAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import (
    ATTEMPTS,
    Record,
    RecordConflict,
    TableMeta,
    table_name,
    transaction,
    translate_errors,
)

CLOCKS_DIFFER = 60.0  # seconds, at most, between two instances; what ends later was counted before a step back


class Counter(Record):
    """`expires` ends a counter; one without it stays. `holder`: of a hold (`records.holds`). `changes`: of a note of
    `records.versions`, kind → ids, or of `records.slots`, holder → end."""

    class Meta(TableMeta):
        table_name = table_name("counters")

    key = UnicodeAttribute(hash_key=True)
    value = NumberAttribute(default=0)
    until = NumberAttribute(null=True)
    holder = UnicodeAttribute(null=True)
    changes = JSONAttribute(null=True)
    expires = TTLAttribute(null=True)
    program = UnicodeAttribute(null=True)  # the oldest version of it that knows the schema, see `records.store.upgrade`


def next_id(kind: str) -> int:
    """An id no other caller gets, rising from 1."""
    counter = Counter(f"id#{kind}")
    with translate_errors():
        counter.update(actions=[Counter.value.add(1)])
    return int(counter.value)


def read(keys: Collection[str], mark: str, seconds: int) -> tuple[dict[str, int], bool]:
    """The failures counted under each of the keys, `seconds` each, that have not expired, and whether `mark` is
    remembered; one call."""
    with translate_errors():
        found = {
            counter.key: counter
            for counter in Counter.batch_get(
                [*(f"failure#{key}" for key in keys), f"mark#{mark}"], consistent_read=True
            )
        }
    now = time.time()
    counts = {key: _count(found.get(f"failure#{key}"), now, seconds) for key in keys}
    marked = found.get(f"mark#{mark}")
    return counts, marked is not None and (marked.until or 0) > now


def _count(counter: Counter | None, now: float, seconds: int) -> int:
    if counter is None or not 0 < (counter.until or 0) - now <= seconds + CLOCKS_DIFFER:
        return 0
    return int(counter.value)


def add_failure(key: str, seconds: int) -> int:
    """One more failure under `key`; the count ends `seconds` after the last one. Returns the count."""
    now = time.time()
    counter = Counter(f"failure#{key}")
    try:
        with translate_errors():
            counter.update(
                actions=[Counter.value.add(1), *_make_end(now, seconds)],
                condition=Counter.until.between(now, now + seconds + CLOCKS_DIFFER),
            )
    except RecordConflict:
        try:
            with translate_errors():
                counter.update(
                    actions=[Counter.value.set(1), *_make_end(now, seconds)], condition=_is_over(now, seconds)
                )
        except RecordConflict:
            return add_failure(key, seconds)  # another process began the count at this moment
    return int(counter.value)


def _is_over(now: float, seconds: int) -> Condition:
    """That a count has ended, or would end later than any that began by now: it was counted by a clock that was ahead,
    and must not last longer than one of today."""
    over: Condition = (
        Counter.until.does_not_exist() | (Counter.until < now) | (Counter.until > now + seconds + CLOCKS_DIFFER)
    )
    return over


def _make_end(now: float, seconds: int) -> list[Action]:
    return [Counter.until.set(now + seconds), Counter.expires.set(datetime.fromtimestamp(now + seconds + 1, UTC))]


def settle(key: str, most: int, seconds: int, mark: str, mark_seconds: int) -> bool:
    """Forget the failures counted under `key` and remember `mark` from now on; one call. False, and nothing of it,
    where there are as many as `most`, `seconds` each."""
    now = time.time()
    few = Counter.value.does_not_exist() | (Counter.value < most) | _is_over(now, seconds)
    for attempt in range(ATTEMPTS):
        try:
            with translate_errors(), transaction(Counter) as write:
                write.delete(Counter(f"failure#{key}"), condition=few)
                write.update(Counter(f"mark#{mark}"), actions=[Counter.value.set(1), *_make_end(now, mark_seconds)])
            return True
        except RecordConflict as conflict:
            if any(conflict.failed):
                return False
            time.sleep(0.01 * (attempt + 1))  # another one wrote them at this moment
    raise RecordsUnavailable


def sweep() -> None:
    """Remove what has ended: DynamoDB does so by itself, the engine on one machine does not."""
    ended = Counter.expires < datetime.now(UTC)
    with translate_errors():
        for counter in Counter.scan(ended):
            try:
                with translate_errors():
                    counter.delete(condition=ended)
            except RecordConflict:
                pass  # counted anew meanwhile


def claim_once(key: str, seconds: int) -> bool:
    """Whether this is the first call for `key` within `seconds`."""
    now = time.time()
    free = Counter.key.does_not_exist() | (Counter.until < now)  # after a step of the clock rather never than twice
    try:
        with translate_errors():
            Counter(f"once#{key}").update(actions=[Counter.value.set(1), *_make_end(now, seconds)], condition=free)
    except RecordConflict:
        return False
    return True
