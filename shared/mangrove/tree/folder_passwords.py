"""Folder passwords that clients send, counted to prevent guessing.

Each password counts once per folder and source: a client that repeats the same wrong password does not guess.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from mangrove.core.http import find_client
from mangrove.core.paths import TreePath
from mangrove.core.runtime import CacheKind
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.identity.lockout import FOLDERS, LOCK_SECONDS, name_folder
from mangrove.records.store import counters
from mangrove.records.store.keys import Key, keyring

if TYPE_CHECKING:
    from mangrove.tree.access import PathAccess

COMPARED_SECONDS = 60.0  # for which a process remembers a password


class _Guess(NamedTuple):
    """A password for `subject`.

    With `is_right` for the folder itself, it ends the count. One for folders below counts in any case, since the answer
    may reveal whether it was right.
    """

    subject: str
    source: str
    password: str
    is_right: bool


class _Compared(NamedTuple):
    """A password that was right, or counted, while its subject was not locked."""

    end: float  # of the monotonic clock
    failures: int  # the change counter: another value means that the subject may be locked now


COMPARED: CacheKind[bytes, _Compared] = CacheKind("compared folder passwords", 4096)


async def limit_guesses(access: PathAccess) -> None:
    """Count the password that was sent for a path.

    Raise TooMany while the folder is locked for the client's address.
    """
    for guess in _find_guesses(access):
        await _count(guess)


async def count_guess(subject: str, source: str, password: str, is_right: bool) -> None:
    """Count a password of something that is not a folder. TooMany while it is locked for the client's address."""
    await _count(_Guess(name_folder(subject), find_client(source), password, is_right))


def _find_guesses(access: PathAccess) -> Iterator[_Guess]:
    """Yield the guesses in a password: of that of the path or its folder, otherwise of those below."""
    source = find_client(access.caller.source)
    passwords: dict[TreePath, str] = {
        decision.rule.path: decision.password
        for decision in (*access.decisions, *access.parent.decisions)
        if decision.rule is not None and decision.password
    }
    matching_paths = [path for path, password in passwords.items() if password == access.password]
    # a password that is right for one folder cannot be varied to guess another
    for path in matching_paths or passwords:
        yield _Guess(name_folder(path), source, access.password, bool(matching_paths))
    if not passwords:
        for decision in access.decisions:
            if access.rules.has_password_below(decision.path):
                yield _Guess(name_folder(f"{decision.path} below"), source, access.password, False)


async def _count(guess: _Guess) -> None:
    key = guess.subject, guess.source
    digest = _digest(guess)
    failures = change_counters().read(Topic.REFUSALS, key)
    compared = COMPARED.open().get(digest)
    if compared is not None and compared.end > time.monotonic() and compared.failures == failures:
        return
    if await asyncio.to_thread(_record, guess, digest):
        change_counters().bump(Topic.REFUSALS, key)
    else:
        COMPARED.open().put(digest, _Compared(time.monotonic() + COMPARED_SECONDS, failures))


def _digest(guess: _Guess) -> bytes:
    text = "\0".join((guess.subject, guess.source, guess.password))
    return hmac.digest(keyring().derive(Key.INTEGRITY, "folder passwords"), text.encode(), "sha256")


def _record(guess: _Guess, digest: bytes) -> bool:
    """Count a guess in the records. Return True if it was a new failure."""
    FOLDERS.check(guess.subject, guess.source)
    if guess.is_right:
        FOLDERS.record_success(guess.subject, guess.source)
        return False
    if not counters.claim_once(f"guess#{digest.hex()}", LOCK_SECONDS):
        return False
    FOLDERS.record_failure(guess.subject, guess.source)
    return True
