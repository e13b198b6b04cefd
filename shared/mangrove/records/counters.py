"""Numbers that many processes raise together: ids, the configuration's version, failures with an end."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.update import Action

from mangrove.records.base import Conflict, Record, TableMeta, table_name, told


class Counter(Record):
    """`expires` ends a counter; one without it stays."""

    class Meta(TableMeta):
        table_name = table_name("counters")

    key = UnicodeAttribute(hash_key=True)
    value = NumberAttribute(default=0)
    until = NumberAttribute(null=True)
    expires = TTLAttribute(null=True)


def _raised(key: str) -> int:
    counter = Counter(key)
    with told():
        counter.update(actions=[Counter.value.add(1)])
    return int(counter.value)


def next_id(kind: str) -> int:
    """An id no other caller gets, rising from 1."""
    return _raised(f"id#{kind}")


def configuration_version() -> int:
    """The version of the configuration; 0 before the first change."""
    with told():
        try:
            return int(Counter.get("configuration", consistent_read=True).value)
        except DoesNotExist:
            return 0


def bump_configuration() -> int:
    """Tell every process that the configuration changed; the new version."""
    return _raised("configuration")


def failures(key: str) -> int:
    """Failures counted under `key` that have not expired."""
    with told():
        try:
            counter = Counter.get(f"failure#{key}", consistent_read=True)
        except DoesNotExist:
            return 0
    return int(counter.value) if (counter.until or 0) > time.time() else 0


def add_failure(key: str, seconds: int) -> int:
    """One more failure under `key`; the count ends `seconds` after the last one. Answers the count."""
    now = time.time()
    counter = Counter(f"failure#{key}")
    try:
        with told():
            counter.update(actions=[Counter.value.add(1), *_ends(now, seconds)], condition=Counter.until > now)
    except Conflict:
        try:
            with told():
                ended = Counter.until.does_not_exist() | (Counter.until <= now)
                counter.update(actions=[Counter.value.set(1), *_ends(now, seconds)], condition=ended)
        except Conflict:
            return add_failure(key, seconds)  # somebody else began the count at this moment
    return int(counter.value)


def _ends(now: float, seconds: int) -> list[Action]:
    return [Counter.until.set(now + seconds), Counter.expires.set(datetime.fromtimestamp(now + seconds + 1, UTC))]


def clear_failures(key: str) -> None:
    """Forget what was counted under `key`."""
    with told():
        Counter(f"failure#{key}").delete()


def sweep() -> None:
    """Remove what has ended: DynamoDB does so by itself, the engine on one machine does not."""
    ended = Counter.expires < datetime.now(UTC)
    with told():
        for counter in Counter.scan(ended):
            try:
                with told():
                    counter.delete(condition=ended)
            except Conflict:
                pass  # counted anew meanwhile


def once(key: str, seconds: int) -> bool:
    """Whether this is the first call for `key` within `seconds`."""
    now = time.time()
    free = Counter.key.does_not_exist() | (Counter.until < now)
    try:
        with told():
            Counter(f"once#{key}").update(actions=[Counter.value.set(1), *_ends(now, seconds)], condition=free)
    except Conflict:
        return False
    return True
