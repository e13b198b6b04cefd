"""Caches of a process, bounded in entries or in weight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mangrove.core import runtime

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CacheKind(Generic[Key, Value]):
    """A cache of the process, kept as a constant by the module that uses it."""

    name: str
    max_weight: int  # the number of entries, unless `weigh` says another weight
    weigh: Callable[[Value], int] | None = None

    def open(self) -> BoundedCache[Key, Value]:
        """Return the cache of this process."""
        return runtime.get(Caches).open(self)


class BoundedCache(Generic[Key, Value]):
    """Values by key; those that were used least recently go."""

    def __init__(self, max_weight: int, weigh: Callable[[Value], int] | None = None) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, None for none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Remember a value, in the place of another one of that key."""
        self.remove(key)
        self._values[key] = value
        self._weight += self._measure(value)
        while self._weight > self._max_weight:
            self._weight -= self._measure(self._values.popitem(last=False)[1])

    def remove(self, key: Key) -> None:
        """Forget the value of a key, if there is one."""
        value = self._values.pop(key, None)
        if value is not None:
            self._weight -= self._measure(value)

    def _measure(self, value: Value) -> int:
        return 1 if self._weigh is None else self._weigh(value)

    def __len__(self) -> int:
        return len(self._values)


class Caches:
    """The caches of a process by their kind."""

    def __init__(self) -> None:
        self._caches: dict[CacheKind[Any, Any], BoundedCache[Any, Any]] = {}

    def open(self, kind: CacheKind[Key, Value]) -> BoundedCache[Key, Value]:
        """Return the cache of a kind, made at the first call."""
        cache = self._caches.get(kind)
        if cache is None:
            cache = self._caches.setdefault(kind, BoundedCache(kind.max_weight, kind.weigh))
        return cache
