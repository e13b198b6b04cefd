"""Protection of the records against other programs that can write them: encrypted attributes and MACs.

An encrypted attribute can be decrypted only in its table, record and attribute. A record that grants rights has a MAC
over all of it, with its key and version. A MAC does not reveal that a record was deleted, or that an older version of
the whole record was restored.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from pynamodb.attributes import Attribute
from pynamodb.constants import BINARY, NUMBER

from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_warning
from mangrove.records.store.keys import Key, keyring

NONCE_BYTES = 12
MAC = "mac"  # the attribute
MAX_LOGGED_KEY_LENGTH = 200  # characters
MAX_REFUSED_RECORDS = 10_000  # that are remembered, so that each is logged once

Item = Mapping[str, Mapping[str, Any]]
"""A record as the engine has it: `{type: value}` by attribute."""


class DecryptionError(Problem):
    """A secret that cannot be decrypted, now or later."""

    text = "a stored secret cannot be read: it was encrypted with another key, or copied from another place"


def encrypt(text: str, context: bytes) -> bytes:
    """Encrypt a text with AES-GCM for the context in which it is stored. The nonce comes first."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + keyring().cipher.encrypt(nonce, text.encode(), context)


def decrypt(encrypted: bytes, context: bytes) -> str:
    """Return the text. Raise DecryptionError if the key or the context differs."""
    try:
        return keyring().cipher.decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], context).decode()
    except (InvalidTag, ValueError):  # ValueError: too short for a nonce
        raise DecryptionError from None


@dataclass(frozen=True, slots=True)
class Plaintext:
    """Text in an item before its encryption or after its decryption. The client of the engine refuses to send it."""

    text: str


class EncryptedAttribute(Attribute[str]):
    """Text that is encrypted before it leaves the process.

    It can be decrypted only in its table, record and attribute, with the same values of the attributes `bound_to`,
    which never change. It is written with its whole record, or encrypted before.
    """

    attr_type = BINARY

    def __init__(self, *, bound_to: Collection[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.bound_to = tuple(bound_to)

    def serialize(self, value: str | bytes) -> Plaintext | bytes:
        return value if isinstance(value, bytes) else Plaintext(value)

    def deserialize(self, value: Plaintext) -> str:
        return value.text

    def encrypt(self, kind: str, key: str, item: Item) -> dict[str, Any]:
        """Return the attribute of a record, encrypted; `key` is the name of the key of the record."""
        plaintext: Plaintext = item[self.attr_name][BINARY]
        return {BINARY: encrypt(plaintext.text, self._make_context(kind, key, item))}

    def decrypt(self, kind: str, key: str, item: Item) -> dict[str, Any]:
        """Return the attribute of a record, decrypted. Raise DecryptionError if it was copied from another place."""
        encrypted = item[self.attr_name].get(BINARY, b"")
        return {BINARY: Plaintext(decrypt(encrypted, self._make_context(kind, key, item)))}

    def _make_context(self, kind: str, key: str, item: Item) -> bytes:
        return orjson.dumps([kind, item[key], self.attr_name, [item.get(name) for name in self.bound_to]])


def compute_mac(kind: str, item: Item) -> bytes:
    """Return the MAC of a record of a kind, over all attributes except the MAC."""
    return hmac.digest(keyring().get(Key.INTEGRITY), _encode(kind, item), "sha256")


def is_authentic(kind: str, item: Item) -> bool:
    """True if a record has the MAC with which it was saved."""
    mac = item.get(MAC, {}).get(BINARY)
    if not isinstance(mac, bytes):
        return False
    try:
        return hmac.compare_digest(mac, compute_mac(kind, item))
    except TypeError:  # a value of a type that no attribute has
        return False


def _encode(kind: str, item: Item) -> bytes:
    """Return a canonical text of the record: the attributes by name, each with its type."""
    attributes = {name: value for name, value in item.items() if name != MAC}
    return orjson.dumps([kind, attributes], default=_encode_bytes, option=orjson.OPT_SORT_KEYS)


def _encode_bytes(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError


def describe_key(key: Mapping[str, Any]) -> str:
    """Return the key of a record for the log."""
    return str(next(iter(key.values())))[:MAX_LOGGED_KEY_LENGTH]


def check_numbers(item: Item) -> None:
    """Raise TypeError unless all numbers of a record are integers: the engine may write any other number in another
    form, and the MAC would not match.
    """
    for name, value in item.items():
        if NUMBER in value and not value[NUMBER].removeprefix("-").isdecimal():
            raise TypeError(f"{name} is not a whole number")


class RefusedRecords:
    """The records that were refused, each logged once."""

    def __init__(self) -> None:
        self._refused: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def add(self, kind: str, key: str) -> None:
        """Remember and log a record that is not as it was saved."""
        with self._lock:
            is_new = (kind, key) not in self._refused
            if len(self._refused) >= MAX_REFUSED_RECORDS:
                self._refused.clear()
            self._refused.add((kind, key))
        if is_new:
            log_warning("a record that another program wrote is refused", table=kind, key=key)

    def remove(self, kind: str, key: str) -> None:
        """Forget a record that was saved or read as it should be."""
        if self._refused:
            with self._lock:
                self._refused.discard((kind, key))

    def has(self, kind: str) -> bool:
        """True if there are refused records of a kind."""
        return any(refused == kind for refused, _ in self._refused.copy())
