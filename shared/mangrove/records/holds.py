"""Exclusive holds on names: taken and given up by conditional writes, and nobody's once their holder is dead.

No clock is trusted: a holder raises `value` while it lives, and who sees the same `value` for long enough takes over.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.update import Action

from mangrove.records.base import Conflict, translate_errors
from mangrove.records.counters import Counter

LIFETIME = timedelta(hours=1)  # until the record of a dead holder is removed, if nobody takes over before


class Beat(NamedTuple):
    """Who holds a name, and how often the hold was renewed."""

    holder: str
    renewals: int


def take(name: str, holder: str, dead: Beat | None = None) -> bool:
    """Hold a name that nobody holds, or whose hold still is `dead`; whether `holder` holds it now."""
    free = Counter.key.does_not_exist() | (Counter.holder == holder)
    if dead is not None:
        free |= (Counter.holder == dead.holder) & (Counter.value == dead.renewals)
    actions: list[Action] = [
        Counter.holder.set(holder),
        Counter.value.set(0),
        Counter.expires.set(datetime.now(UTC) + LIFETIME),
    ]
    try:
        with translate_errors():
            _make_record(name).update(actions=actions, condition=free)
    except Conflict:
        return False
    return True


def find(name: str) -> Beat | None:
    """The present hold on a name; None when it is free."""
    with translate_errors():
        try:
            found = Counter.get(_make_record(name).key, consistent_read=True)
        except DoesNotExist:
            return None
    return Beat(found.holder, int(found.value))


def renew(name: str, holder: str) -> None:
    """Show that the holder lives; Conflict when the name is not theirs any more."""
    actions: list[Action] = [Counter.value.add(1), _make_end()]
    with translate_errors():
        _make_record(name).update(actions=actions, condition=Counter.holder == holder)


def release(name: str, holder: str) -> None:
    """Give a name up; nothing when somebody else holds it."""
    try:
        with translate_errors():
            _make_record(name).delete(condition=Counter.holder == holder)
    except Conflict:
        pass  # it was never theirs, or was taken over


def _make_record(name: str) -> Counter:
    return Counter(f"hold#{name}")


def _make_end() -> Action:
    return Counter.expires.set(datetime.now(UTC) + LIFETIME)
