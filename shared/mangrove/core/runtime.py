"""What lives as long as the process, with one owner.

A room keeps its state in a class that is made without arguments: the configuration in memory in
`site.snapshot.SnapshotStore`, the connection to the records engine in `records.base.Connections` and so on. That
class is its slot: `runtime.get(Connections)` returns the one of the present runtime, made at the first call. This
module knows none of them; `tests/contract/test_runtime.py` holds the list of all.

Nothing else in the package changes after its import. A test that needs a clean process makes a runtime of its own:
`with runtime.use(Runtime()): …`, or `runtime.use(runtime.current().keep(Connections))` to share what is costly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

State = TypeVar("State")


@runtime_checkable
class Closes(Protocol):
    """State that holds what the process has to give back."""

    def close(self) -> None:
        """Give it back; not used after that."""
        ...


class Runtime:
    """The slots of one process, by the class of what they hold; safe to use from any thread."""

    def __init__(self) -> None:
        self._slots: dict[type[Any], Any] = {}
        self._made: list[Any] = []  # here, in this order, and not taken over
        self._making = threading.RLock()  # a slot may ask for others while it is made

    def get(self, kind: type[State]) -> State:
        """The one `kind` of this runtime, made without arguments at the first call."""
        try:
            found: State = self._slots[kind]
        except KeyError:
            found = self._make(kind)
        return found

    def _make(self, kind: type[State]) -> State:
        with self._making:
            if kind not in self._slots:
                self._slots[kind] = kind()
                self._made.append(self._slots[kind])
            found: State = self._slots[kind]
            return found

    def put(self, kind: type[State], state: State) -> None:
        """Fill a slot with what was made elsewhere."""
        self._slots[kind] = state

    def keep(self, *kinds: type[Any]) -> Runtime:
        """A new runtime that shares these slots with this one, and nothing else."""
        other = Runtime()
        for kind in kinds:
            other.put(kind, self.get(kind))
        return other

    def close(self) -> None:
        """Close what was made here and can be closed, the last one first."""
        while self._made:
            state = self._made.pop()
            if isinstance(state, Closes):
                state.close()


_stack = [Runtime()]  # the last one counts; only `use` changes it


def current() -> Runtime:
    """The runtime of this process."""
    return _stack[-1]


def get(kind: type[State]) -> State:
    """The one `kind` of the present runtime."""
    return _stack[-1].get(kind)


def put(kind: type[State], state: State) -> None:
    """Fill a slot of the present runtime."""
    _stack[-1].put(kind, state)


@contextmanager
def use(other: Runtime) -> Iterator[Runtime]:
    """Replace the whole runtime while the context lasts, in all threads; it is closed at the end."""
    _stack.append(other)
    try:
        yield other
    finally:
        _stack.remove(other)
        other.close()
