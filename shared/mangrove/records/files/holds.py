"""Exclusive holds on names: taken and given up by conditional writes, and nobody's once their holder is dead.

No clock is trusted: a holder raises `value` while it lives, and who sees the same `value` for long enough takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import RecordConflict, transaction, translate_errors
from mangrove.records.store.counters import Counter

LIFETIME = timedelta(hours=1)  # until the record of a dead holder is removed, if nobody takes over before
MOST = 100  # names that one call is about: the limit of DynamoDB


class Beat(NamedTuple):
    """Who holds a name, and how often the hold was renewed."""

    holder: str
    renewals: int


def take(name: str, holder: str, dead: Beat | None = None) -> bool:
    """Hold a name that nobody holds, or whose hold still is `dead`; whether `holder` holds it now."""
    free = _is_free_for(holder)
    if dead is not None:
        free |= (Counter.holder == dead.holder) & (Counter.value == dead.renewals)
    try:
        with translate_errors():
            _make_record(name).update(actions=_make_beginning(holder), condition=free)
    except RecordConflict:
        return False
    return True


def take_all(names: Sequence[str], holder: str) -> bool:
    """Hold names that nobody holds, at most MOST: all of them, or none. Whether `holder` holds them now."""

    def add(write: TransactWrite, record: Counter) -> None:
        write.update(record, actions=_make_beginning(holder), condition=_is_free_for(holder))

    try:
        _write_all(names, add)
    except RecordConflict:
        return False
    return True


def _is_free_for(holder: str) -> Condition:
    condition: Condition = Counter.key.does_not_exist() | (Counter.holder == holder)
    return condition


def _make_beginning(holder: str) -> list[Action]:
    return [Counter.holder.set(holder), Counter.value.set(0), _make_end()]


def find(name: str) -> Beat | None:
    """The present hold on a name; None when it is free."""
    with translate_errors():
        try:
            found = Counter.get(_make_record(name).key, consistent_read=True)
        except DoesNotExist:
            return None
    return Beat(found.holder, int(found.value))


def renew(names: Sequence[str], holder: str) -> None:
    """Show that the holder lives; RecordConflict when one of the names is not theirs any more. At most MOST."""

    def add(write: TransactWrite, record: Counter) -> None:
        write.update(record, actions=_make_renewal(), condition=Counter.holder == holder)

    if len(names) == 1:
        with translate_errors():
            _make_record(names[0]).update(actions=_make_renewal(), condition=Counter.holder == holder)
        return
    try:
        _write_all(names, add)
    except RecordConflict as conflict:
        if not any(conflict.failed):
            raise RecordsUnavailable from conflict  # it met another transaction: worth a retry
        raise


def _make_renewal() -> list[Action]:
    return [Counter.value.add(1), _make_end()]


def release(names: Sequence[str], holder: str) -> None:
    """Give names up; nothing of those that somebody else holds. At most MOST."""

    def add(write: TransactWrite, record: Counter) -> None:
        write.delete(record, condition=Counter.holder == holder)

    if len(names) > 1:
        try:
            _write_all(names, add)
            return
        except RecordConflict:
            pass  # one was never theirs, or was taken over: each by itself
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
