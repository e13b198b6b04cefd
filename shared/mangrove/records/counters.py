"""Numbers that many processes raise together: ids, the configuration's version, failures that expire."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.update import Action

from mangrove import runtime
from mangrove.records.base import Conflict, Record, TableMeta, table_name, translate_errors


class Counter(Record):
    """`expires` ends a counter; one without it stays."""

    class Meta(TableMeta):
        table_name = table_name("counters")

    key = UnicodeAttribute(hash_key=True)
    value = NumberAttribute(default=0)
    until = NumberAttribute(null=True)
    expires = TTLAttribute(null=True)


class ConfigurationWrites:
    """How many writes of the configuration this process has made."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """One more, which is stored by now."""
        with self._lock:
            self.count += 1


def _increment(key: str) -> int:
    counter = Counter(key)
    with translate_errors():
        counter.update(actions=[Counter.value.add(1)])
    return int(counter.value)


def next_id(kind: str) -> int:
    """An id no other caller gets, rising from 1."""
    return _increment(f"id#{kind}")


def get_configuration_version() -> int:
    """The version of the configuration; 0 before the first change."""
    with translate_errors():
        try:
            return int(Counter.get("configuration", consistent_read=True).value)
        except DoesNotExist:
            return 0


def bump_configuration() -> int:
    """Raise the version of the configuration after a write to it; the new version.

    Other processes see it when they next ask, `site.snapshot` of this one at once.
    """
    version = _increment("configuration")
    runtime.get(ConfigurationWrites).add()
    return version


def count_failures(key: str) -> int:
    """Failures counted under `key` that have not expired."""
    with translate_errors():
        try:
            counter = Counter.get(f"failure#{key}", consistent_read=True)
        except DoesNotExist:
            return 0
    return int(counter.value) if (counter.until or 0) > time.time() else 0


def add_failure(key: str, seconds: int) -> int:
    """One more failure under `key`; the count ends `seconds` after the last one. Returns the count."""
    now = time.time()
    counter = Counter(f"failure#{key}")
    try:
        with translate_errors():
            counter.update(actions=[Counter.value.add(1), *_make_end(now, seconds)], condition=Counter.until > now)
    except Conflict:
        try:
            with translate_errors():
                ended = Counter.until.does_not_exist() | (Counter.until <= now)
                counter.update(actions=[Counter.value.set(1), *_make_end(now, seconds)], condition=ended)
        except Conflict:
            return add_failure(key, seconds)  # another process began the count at this moment
    return int(counter.value)


def _make_end(now: float, seconds: int) -> list[Action]:
    return [Counter.until.set(now + seconds), Counter.expires.set(datetime.fromtimestamp(now + seconds + 1, UTC))]


def clear_failures(key: str) -> None:
    """Forget what was counted under `key`."""
    with translate_errors():
        Counter(f"failure#{key}").delete()


def sweep() -> None:
    """Remove what has ended: DynamoDB does so by itself, the engine on one machine does not."""
    ended = Counter.expires < datetime.now(UTC)
    with translate_errors():
        for counter in Counter.scan(ended):
            try:
                with translate_errors():
                    counter.delete(condition=ended)
            except Conflict:
                pass  # counted anew meanwhile


def claim_once(key: str, seconds: int) -> bool:
    """Whether this is the first call for `key` within `seconds`."""
    now = time.time()
    free = Counter.key.does_not_exist() | (Counter.until < now)
    try:
        with translate_errors():
            Counter(f"once#{key}").update(actions=[Counter.value.set(1), *_make_end(now, seconds)], condition=free)
    except Conflict:
        return False
    return True
