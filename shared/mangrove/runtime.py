"""What lives as long as the process, with one owner.

A room keeps its state in a class that is made without arguments: the snapshot of the configuration in
`site.snapshot.SnapshotStore`, the mounted storages in `tree.mounts.Mounts`, the listings in `tree.listing.Listings` and
so on. That class is its slot: `runtime.get(Listings)` answers the one of the present runtime, made when it is first
asked for. This module knows none of them; `tests/contract/test_runtime.py` holds the list of all.

Nothing else in the package changes after its import. A test that wants a clean process makes a runtime of its own:
`with runtime.use(Runtime()): …`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

State = TypeVar("State")


class Runtime:
    """The slots of one process, by the class of what they hold."""

    def __init__(self) -> None:
        self._slots: dict[type[Any], Any] = {}
        self._making = threading.RLock()

    def get(self, kind: type[State]) -> State:
        """The one `kind` of this runtime, made without arguments at the first call; from any thread."""
        found = self._slots.get(kind)
        if found is None:
            with self._making:
                found = self._slots.get(kind)
                if found is None:
                    found = self._slots[kind] = kind()
        return cast(State, found)

    def put(self, kind: type[State], state: State) -> None:
        """Fill a slot with what was made elsewhere."""
        self._slots[kind] = state


_current = [Runtime()]  # the last one counts


def current() -> Runtime:
    """The runtime of this process."""
    return _current[-1]


def get(kind: type[State]) -> State:
    """The one `kind` of the present runtime."""
    return _current[-1].get(kind)


def put(kind: type[State], state: State) -> None:
    """Fill a slot of the present runtime."""
    _current[-1].put(kind, state)


@contextmanager
def use(other: Runtime) -> Iterator[Runtime]:
    """Replace the whole runtime while the context lasts."""
    _current.append(other)
    try:
        yield other
    finally:
        _current.pop()
