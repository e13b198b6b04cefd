"""Failed attempts with a password, counted in a table with expiry, so that all instances share counts across restarts.

A pair of subject (an account, a folder) and source is locked after MAX_FAILURES_PER_PAIR failures. The wider counts
limit an attacker who uses one source for many subjects, or many sources for one subject. They apply only to unknown
sources. A source that has succeeded with the subject before has only the count of its pair, so that an attacker cannot
lock it out.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from mangrove.core.http import find_client
from mangrove.core.problems import TooMany
from mangrove.core.runtime import CacheKind
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store import counters
from mangrove.records.store.keys import Key, keyring

LOCK_SECONDS = 300
MAX_FAILURES_PER_PAIR = 5
MAX_FAILURES_PER_SOURCE = 50  # for accounts
MAX_FOLDER_FAILURES_PER_SOURCE = 400
MAX_FAILURES_PER_SUBJECT = 500
KNOWN_SECONDS = 90 * 86_400  # for which a successful source is known
MAX_SUBJECT_LENGTH = 256  # characters; no account has so many, and a key may have 2,048 bytes
COMPARED_SECONDS = 60.0  # for which a process remembers the password of a folder


@dataclass(frozen=True, slots=True)
class Lockout:
    """The counts of one kind of subject."""

    prefix: str  # of the keys of its records
    message: str | None  # of TooMany, None for the default
    max_failures_per_source: int

    def check(self, subject: str, source: str) -> None:
        """Raise TooMany during a lockout. An attempt while the pair is locked restarts the time of the lockout."""
        for key, (count, limit) in self._read(subject[:MAX_SUBJECT_LENGTH], find_client(source)).items():
            if count >= limit:
                if limit == MAX_FAILURES_PER_PAIR:
                    counters.add_failure(key, LOCK_SECONDS)
                raise self._make_refusal()

    def record_failure(self, subject: str, source: str) -> None:
        """Count a failure. Raise TooMany if concurrent attempts had used up the pair's attempts."""
        rows = self._read(subject[:MAX_SUBJECT_LENGTH], find_client(source))
        counts = {limit: counters.add_failure(key, LOCK_SECONDS) for key, (_, limit) in rows.items()}
        if counts[MAX_FAILURES_PER_PAIR] > MAX_FAILURES_PER_PAIR:
            raise self._make_refusal()

    def record_success(self, subject: str, source: str) -> None:
        """Reset the pair's failures and mark the source as known.

        Raise TooMany if concurrent attempts had used up its attempts.
        """
        subject, source = subject[:MAX_SUBJECT_LENGTH], find_client(source)
        pair, known = self._make_pair_key(subject, source), self._make_known_key(subject, source)
        if not counters.clear_failures(pair, MAX_FAILURES_PER_PAIR, LOCK_SECONDS, known, KNOWN_SECONDS):
            counters.add_failure(pair, LOCK_SECONDS)
            raise self._make_refusal()

    def _read(self, subject: str, source: str) -> dict[str, tuple[int, int]]:
        """Return the keys that apply to an attempt, each with its failures and its limit. The pair is the first."""
        limits = {
            self._make_pair_key(subject, source): MAX_FAILURES_PER_PAIR,
            f"{self.prefix}source#{source}": self.max_failures_per_source,
            f"{self.prefix}account#{subject}": MAX_FAILURES_PER_SUBJECT,
        }
        counts, is_known = counters.read(limits, self._make_known_key(subject, source), LOCK_SECONDS)
        keys = list(limits)[:1] if is_known else limits
        return {key: (counts[key], limits[key]) for key in keys}

    def _make_pair_key(self, subject: str, source: str) -> str:
        return f"{self.prefix}pair#{subject}#{source}"

    def _make_known_key(self, subject: str, source: str) -> str:
        return f"{self.prefix}known#{subject}#{source}"

    def _make_refusal(self) -> TooMany:
        return TooMany(self.message, retry_after=LOCK_SECONDS)


ACCOUNTS = Lockout("", None, MAX_FAILURES_PER_SOURCE)
FOLDERS_LOCKED = "too many wrong passwords have been given for this folder, try again later"
FOLDERS = Lockout("folder-", FOLDERS_LOCKED, MAX_FOLDER_FAILURES_PER_SOURCE)


class _Compared(NamedTuple):
    """A password that was right, or counted, while its subject was not locked."""

    end: float  # of the monotonic clock
    failures: int  # the change counter: another value means that the subject may be locked now


COMPARED: CacheKind[bytes, _Compared] = CacheKind("compared folder passwords", 4096)


async def count_guess(folder: str, source: str, password: str, is_right: bool) -> None:
    """Count a password that a client sends for a folder. Raise TooMany while the folder is locked for its address.

    Each password counts once per folder and address: a client that repeats the same wrong password does not guess.
    With `is_right` for the folder itself, it ends the count. One for folders below counts in any case, since the answer
    may reveal whether it was right.
    """
    subject, source = sha256(folder.encode()).hexdigest(), find_client(source)  # a path may have any length
    digest = _digest(subject, source, password)
    failures = change_counters().read(Topic.REFUSALS, (subject, source))
    compared = COMPARED.open().get(digest)
    if compared is not None and compared.end > time.monotonic() and compared.failures == failures:
        return
    if await asyncio.to_thread(_record_guess, subject, source, digest, is_right):
        change_counters().bump(Topic.REFUSALS, (subject, source))
    else:
        COMPARED.open().put(digest, _Compared(time.monotonic() + COMPARED_SECONDS, failures))


def _digest(subject: str, source: str, password: str) -> bytes:
    text = "\0".join((subject, source, password))
    return hmac.digest(keyring().derive(Key.INTEGRITY, "folder passwords"), text.encode(), "sha256")


def _record_guess(subject: str, source: str, digest: bytes, is_right: bool) -> bool:
    """Count a guess in the records. Return True if it was a new failure."""
    FOLDERS.check(subject, source)
    if is_right:
        FOLDERS.record_success(subject, source)
        return False
    if not counters.claim_once(f"guess#{digest.hex()}", LOCK_SECONDS):
        return False
    FOLDERS.record_failure(subject, source)
    return True
