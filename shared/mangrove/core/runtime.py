"""State that lives as long as the process, with one owner.

A package keeps its state in a class that is constructed without arguments, for example the connection to the records
engine. That class is a slot: `runtime.get(Connections)` returns its object in the present runtime, made at the first
call. This module imports none of them; `deployment/checks/state.py` limits their number. Nothing else in `mangrove`
changes after its import.

A test that needs a clean process makes a runtime of its own: `with runtime.use(Runtime()): …`, or
`runtime.use(runtime.current().keep(Connections))` to share an expensive slot.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

State = TypeVar("State")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@runtime_checkable
class Closes(Protocol):
    """State with resources to release at the end."""

    def close(self) -> None:
        """Release the resources; the object is not used after that."""
        ...


class Runtime:
    """The slots and caches of one process. Slots are safe to use from any thread."""

    def __init__(self) -> None:
        self._slots: dict[type[Any], Any] = {}
        self._made: list[Any] = []  # states that this runtime made, in this order
        self._making = threading.RLock()  # a slot may use others while it is made
        self._caches: dict[CacheKind[Any, Any], BoundedCache[Any, Any]] = {}

    def get(self, kind: type[State]) -> State:
        """Return the object of a slot, made without arguments at the first call."""
        try:
            state: State = self._slots[kind]
        except KeyError:
            state = self._make(kind)
        return state

    def _make(self, kind: type[State]) -> State:
        with self._making:
            if kind not in self._slots:
                self._slots[kind] = kind()
                self._made.append(self._slots[kind])
            state: State = self._slots[kind]
            return state

    def put(self, kind: type[State], state: State) -> None:
        """Fill a slot with an object that was made elsewhere."""
        self._slots[kind] = state

    def open_cache(self, kind: CacheKind[Key, Value]) -> BoundedCache[Key, Value]:
        """Return the cache of a kind, made at the first call."""
        cache = self._caches.get(kind)
        if cache is None:
            cache = self._caches.setdefault(kind, BoundedCache(kind.max_weight, kind.weigh))
        return cache

    def keep(self, *kinds: Kept) -> Runtime:
        """Return a new runtime that shares only these slots and caches with this one."""
        other = Runtime()
        for kind in kinds:
            if isinstance(kind, CacheKind):
                other._caches[kind] = self.open_cache(kind)
            else:
                other.put(kind, self.get(kind))
        return other

    def close(self) -> None:
        """Close the states that this runtime made, the last one first."""
        while self._made:
            state = self._made.pop()
            if isinstance(state, Closes):
                state.close()


@dataclass(frozen=True, slots=True)
class CacheKind(Generic[Key, Value]):
    """A kind of cache of the process. The module that uses it has its kind as a constant."""

    name: str
    max_weight: int
    """The number of entries, unless `weigh` returns another weight for a value."""
    weigh: Callable[[Value], int] | None = None

    def open(self) -> BoundedCache[Key, Value]:
        """Return the cache of this process."""
        return _stack[-1].open_cache(self)


Kept = type[Any] | CacheKind[Any, Any]
"""A slot or a kind of cache that two runtimes can share."""


class BoundedCache(Generic[Key, Value]):
    """Values by key; the least recently used values are removed. It is safe to use from any thread."""

    def __init__(self, max_weight: int, weigh: Callable[[Value], int] | None = None) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self.weight = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, None if there is none."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Add a value, or replace the value of the key."""
        with self._lock:
            self._remove(key)
            self._values[key] = value
            self.weight += self._measure(value)
            while self.weight > self._max_weight:
                self.weight -= self._measure(self._values.popitem(last=False)[1])

    def remove(self, key: Key) -> None:
        """Remove the value of a key, if there is one."""
        with self._lock:
            self._remove(key)

    def remove_all(self, matches: Callable[[Key, Value], bool]) -> None:
        """Remove the values that match, or whose keys do."""
        with self._lock:
            for key in [key for key, value in self._values.items() if matches(key, value)]:
                self._remove(key)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
            self.weight = 0

    def _remove(self, key: Key) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self.weight -= self._measure(value)

    def _measure(self, value: Value) -> int:
        return 1 if self._weigh is None else self._weigh(value)

    def __len__(self) -> int:
        return len(self._values)


_stack = [Runtime()]  # the last one is used; only `use` changes it


def current() -> Runtime:
    """Return the runtime of this process."""
    return _stack[-1]


def get(kind: type[State]) -> State:
    """Return the object of a slot of the present runtime."""
    present = _stack[-1]
    try:  # as the method does: a request asks a hundred times
        state: State = present._slots[kind]
    except KeyError:
        state = present.get(kind)
    return state


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
