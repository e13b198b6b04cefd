"""What another program wrote into the tables is not believed.

A sealed attribute opens only in the place it was sealed for: its table, record and name. A record that grants
something carries a MAC over all of it, its key and version included. What a MAC cannot tell is that a record was
removed, or that an older one of the same key was put back as a whole.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pynamodb.attributes import Attribute
from pynamodb.constants import BINARY, NUMBER

from mangrove.core import runtime
from mangrove.core.telemetry import log_warning
from mangrove.records.store.crypto import derive, seal, unseal

MAC = "mac"  # the attribute
MAX_KEY_LETTERS = 200  # of a key in the log
MAX_NAMED = 10_000  # refused records that are remembered as named in the log

Item = Mapping[str, Mapping[str, Any]]
"""A record as the engine has it: attribute → {type: value}."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Text before it is sealed or after it was opened; the engine's client refuses to send one."""

    text: str


class Sealed(Attribute[str]):
    """Text that is encrypted before it leaves the process.

    It opens only in its table, record and attribute, beside the values that the attributes `beside` had: such as are
    never changed. It is written with its whole record, or sealed before.
    """

    attr_type = BINARY

    def __init__(self, *, beside: Collection[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.beside = tuple(beside)

    def serialize(self, value: str | bytes) -> Clear | bytes:
        return value if isinstance(value, bytes) else Clear(value)

    def deserialize(self, value: Clear) -> str:
        return value.text

    def seal(self, kind: str, key: str, item: Item) -> dict[str, Any]:
        """The attribute of a record, sealed; `key` is the name of the record's key."""
        clear: Clear = item[self.attr_name][BINARY]
        return {BINARY: seal(clear.text, self._describe_place(kind, key, item))}

    def open(self, kind: str, key: str, item: Item) -> dict[str, Any]:
        """The attribute of a record, opened; Problem when it was sealed for another place."""
        sealed = item[self.attr_name].get(BINARY, b"")
        return {BINARY: Clear(unseal(sealed, self._describe_place(kind, key, item)))}

    def _describe_place(self, kind: str, key: str, item: Item) -> bytes:
        return orjson.dumps([kind, item[key], self.attr_name, [item.get(name) for name in self.beside]])


def compute_mac(kind: str, item: Item) -> bytes:
    """The MAC of a record of a kind, over every attribute but the MAC."""
    return hmac.digest(derive("record integrity"), _encode(kind, item), "sha256")


def is_authentic(kind: str, item: Item) -> bool:
    """Whether a record carries the MAC that it was saved with."""
    found = item.get(MAC, {}).get(BINARY)
    if not isinstance(found, bytes):
        return False
    try:
        return hmac.compare_digest(found, compute_mac(kind, item))
    except TypeError:  # a value of a type that no attribute of ours has
        return False


def _encode(kind: str, item: Item) -> bytes:
    """One text for one record: the attributes by name, each with its type."""
    known = {name: value for name, value in item.items() if name != MAC}
    return orjson.dumps([kind, known], default=_encode_bytes, option=orjson.OPT_SORT_KEYS)


def _encode_bytes(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError


def describe_key(key: Mapping[str, Any]) -> str:
    """The key of a record for the log."""
    return str(next(iter(key.values())))[:MAX_KEY_LETTERS]


def check_numbers(item: Item) -> None:
    """TypeError unless all numbers of a record are whole: the engine may write any other in another way, and the MAC
    would not fit any more."""
    for name, value in item.items():
        if NUMBER in value and not value[NUMBER].removeprefix("-").isdecimal():
            raise TypeError(f"{name} is no whole number")


class Refusals:
    """The records that were refused: each is named in the log once."""

    def __init__(self) -> None:
        self._refused: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def add(self, kind: str, key: str) -> None:
        """A record was read that is not as it was saved."""
        with self._lock:
            is_new = (kind, key) not in self._refused
            if len(self._refused) >= MAX_NAMED:
                self._refused.clear()
            self._refused.add((kind, key))
        if is_new:
            log_warning("a record that another program wrote is refused", table=kind, key=key)

    def remove(self, kind: str, key: str) -> None:
        """A record was saved or read as it should be."""
        if self._refused:
            with self._lock:
                self._refused.discard((kind, key))

    def has(self, kind: str) -> bool:
        """Whether there are refused records of a kind."""
        return any(refused == kind for refused, _ in self._refused.copy())


def refuse(kind: str, key: str) -> None:
    """Name a record in the log that is not as it was saved."""
    runtime.get(Refusals).add(kind, key)


def accept(kind: str, key: str) -> None:
    """Take back an earlier refusal."""
    runtime.get(Refusals).remove(kind, key)


def has_refused(kind: str) -> bool:
    """Whether records of a kind were refused when they were last read."""
    return runtime.get(Refusals).has(kind)
