"""The audit: what administrators and users did to accounts, settings and access. Records expire after a number of days.

The records of a month have one key, so a page of the list is one query, or a few when a month has few records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from secrets import token_hex

from pynamodb.attributes import TTLAttribute, UnicodeAttribute

from mangrove.records.store.base import Record, TableMeta, table_name, translate_errors

MAX_AUDIT_DAYS = 400
MAX_AUDIT_ROWS_READ = 2000  # for one page of the list; more are read with the next page
MICROSECONDS = 1_000_000
DAY_SECONDS = 24 * 3600


class AuditRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("audit")

    month = UnicodeAttribute(hash_key=True)  # as 2026-11, in UTC
    key = UnicodeAttribute(range_key=True)  # see `make_audit_key`
    username = UnicodeAttribute()
    address = UnicodeAttribute()
    action = UnicodeAttribute()
    target = UnicodeAttribute()
    expires = TTLAttribute()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action. It has no value of a secret, and no text that a person typed in vain."""

    username: str
    """The user who acted; "" for a sign-in under the name of no user."""
    address: str
    """The address of the client; "" for the service itself."""
    action: str
    target: str
    """The name of the thing that was changed, or the way of a sign-in."""
    key: str = ""
    """The key of the record; "" until it is added."""

    @property
    def time(self) -> float:
        """The time of the action in seconds since the epoch."""
        return int(self.key.partition("-")[0]) / MICROSECONDS


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of the audit, the last action first."""

    entries: list[AuditEntry]
    next_key: str
    """The key from which the next page continues; "" after the last page."""


def make_audit_key(seconds: float) -> str:
    """Return the first key of a time: keys are in the order of their times."""
    return f"{max(int(seconds * MICROSECONDS), 0):017d}"


def add(entry: AuditEntry, days: int) -> None:
    """Add an action of now, which is kept for a number of days."""
    now = time.time()
    moment = datetime.fromtimestamp(now, UTC)
    record = AuditRecord(
        _name_month(moment), f"{make_audit_key(now)}-{token_hex(4)}", username=entry.username, address=entry.address,
        action=entry.action, target=entry.target, expires=moment + timedelta(days=days),
    )  # fmt: skip
    with translate_errors():
        record.save()


def find(is_asked: Callable[[AuditEntry], bool], since: float, before: str, limit: int) -> AuditPage:
    """Return at most `limit` actions that are asked for, from a time on and before a key, the last first.

    The page has fewer actions, and may have none, when MAX_AUDIT_ROWS_READ actions were read for it.
    """
    entries: list[AuditEntry] = []
    read = 0
    with translate_errors():
        for entry in islice(_iter_back(max(since, _find_oldest()), before), MAX_AUDIT_ROWS_READ):
            read += 1
            if is_asked(entry):
                entries.append(entry)
            if len(entries) == limit or read == MAX_AUDIT_ROWS_READ:
                return AuditPage(entries, entry.key)
    return AuditPage(entries, "")


def _find_oldest() -> float:
    return time.time() - MAX_AUDIT_DAYS * DAY_SECONDS


def _iter_back(since: float, before: str) -> Iterator[AuditEntry]:
    """Yield the actions between a time and a key, the last first."""
    now, first_key = time.time(), make_audit_key(since)
    month = datetime.fromtimestamp(min(now, int(before.partition("-")[0]) / MICROSECONDS), UTC).replace(day=1)
    while month.timestamp() + 31 * DAY_SECONDS >= since:
        condition = AuditRecord.key < before
        records = AuditRecord.query(_name_month(month), condition, scan_index_forward=False, page_size=200)
        for record in records:
            if record.key < first_key:
                return
            if record.expires.timestamp() > now:
                yield AuditEntry(record.username, record.address, record.action, record.target, record.key)
        month = (month - timedelta(days=1)).replace(day=1)


def _name_month(moment: datetime) -> str:
    return f"{moment:%Y-%m}"


def delete_before(before: float) -> None:
    """Delete the actions before a time that have not expired: they were recorded when actions were kept for longer.

    This reads the months before that time, and nothing of the later ones.
    """
    oldest, until = datetime.fromtimestamp(_find_oldest(), UTC), datetime.fromtimestamp(before, UTC)
    month = until.replace(day=1)
    with translate_errors():
        while _name_month(month) >= _name_month(oldest):
            is_earlier = AuditRecord.key < make_audit_key(before)
            for record in AuditRecord.query(_name_month(month), is_earlier, AuditRecord.expires > datetime.now(UTC)):
                record.delete()
            month = (month - timedelta(days=1)).replace(day=1)
