"""Uploads through share links: their number and bytes, and the receipts of each sender."""

from __future__ import annotations

import random
import time
from dataclasses import asdict, dataclass
from hashlib import sha256

from mangrove.core.problems import RecordsUnavailable
from mangrove.records import share_links
from mangrove.records.share_links import ShareLink
from mangrove.records.store import counters
from mangrove.records.store.base import RecordConflict, transaction, translate_errors
from mangrove.records.store.counters import Counter

MAX_RECEIPTS_PER_SESSION = 100
RECEIPT_SECONDS = 14 * 86_400  # for which a sender sees the receipts
MAX_ATTEMPTS = 20  # to count an upload that meets others
MAX_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class UploadReceipt:
    """A file that a visitor sent."""

    name: str
    size: int
    sha256: str
    """Hexadecimal; "" if the service did not see all bytes."""
    time: int
    """Seconds since the epoch."""


def _make_keys(link: ShareLink) -> tuple[str, str]:
    _, files, total = share_links.list_counter_keys(link.number)
    return files, total


def count_uploads(link: ShareLink) -> tuple[int, int]:
    """Return the number and the bytes of the files that were uploaded."""
    keys = _make_keys(link)
    with translate_errors():
        stored = {counter.key: int(counter.value) for counter in Counter.batch_get(list(keys), consistent_read=True)}
    return stored.get(keys[0], 0), stored.get(keys[1], 0)


def fits(link: ShareLink, size: int) -> bool:
    """True if the share link takes another file of this size now."""
    files, total = count_uploads(link)
    return not (0 < link.max_files < files + 1 or 0 < link.max_total_size < total + size)


def reserve(link: ShareLink, size: int) -> bool:
    """Count a file before it is stored. False, and nothing is counted, if the share link does not take it.

    Both numbers are written in one transaction: uploads at the same time are never more than are allowed.
    """
    for _ in range(MAX_ATTEMPTS):
        if not fits(link, size):
            return False
        try:
            _add(link, size)
            return True
        except RecordConflict:
            time.sleep(random.random() * MAX_PAUSE_SECONDS)
    raise RecordsUnavailable


def _add(link: ShareLink, size: int) -> None:
    conditions = [
        Counter.key.does_not_exist() | (Counter.value <= limit - amount) if limit else None
        for limit, amount in ((link.max_files, 1), (link.max_total_size, size))
    ]
    with translate_errors(), transaction(Counter) as write:
        for key, amount, condition in zip(_make_keys(link), (1, size), conditions, strict=True):
            write.update(Counter(key), actions=[Counter.value.add(amount)], condition=condition)


def release(link: ShareLink, size: int) -> None:
    """Take back the count of a file that was not stored."""
    for key, amount in zip(_make_keys(link), (1, size), strict=True):
        with translate_errors():
            Counter(key).update(actions=[Counter.value.add(-amount)])


def _make_session_key(link: ShareLink, session: str) -> str:
    return f"receipts#{link.number}#{sha256(session.encode()).hexdigest()}"


def add_receipt(link: ShareLink, session: str, receipt: UploadReceipt) -> None:
    """Store a receipt for a sender; those over MAX_RECEIPTS_PER_SESSION are not stored."""
    key, end = _make_session_key(link, session), counters.make_end(time.time(), RECEIPT_SECONDS)
    number = Counter(key)
    is_below = Counter.key.does_not_exist() | (Counter.value < MAX_RECEIPTS_PER_SESSION)
    try:
        with translate_errors():
            number.update(actions=[Counter.value.add(1), *end], condition=is_below)
    except RecordConflict:
        return
    with translate_errors():
        Counter(f"{key}#{number.value}").update(actions=[Counter.changes.set(asdict(receipt)), *end])


def list_receipts(link: ShareLink, session: str) -> list[UploadReceipt]:
    """Return the receipts of a sender, the first file first."""
    key = _make_session_key(link, session)
    with translate_errors():
        count = next((int(counter.value) for counter in Counter.batch_get([key], consistent_read=True)), 0)
    keys = [f"{key}#{number}" for number in range(1, count + 1)]
    with translate_errors():
        stored = {counter.key: counter for counter in Counter.batch_get(keys, consistent_read=True)} if keys else {}
    return [UploadReceipt(**stored[key].changes) for key in keys if key in stored and stored[key].changes]
