"""Uploads in chunks that visitors of share links have begun and not ended.

A record of each share link has its uploads, and another one the number of all. Both are written in one transaction, so
that any number of beginnings at the same time are never more than the bounds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import RecordConflict, transaction, translate_errors
from mangrove.records.store.counters import Counter

MAX_OPEN_UPLOADS_PER_SENDER = 50  # of one address, through one share link
MAX_OPEN_UPLOADS_PER_SHARE = 200
MAX_OPEN_SHARED_UPLOADS = 2000  # through all share links
MAX_ATTEMPTS = 20  # to write a change that meets others
MAX_PAUSE_SECONDS = 0.1
NEW_SECONDS = 60.0  # for which an upload counts although its session is not stored yet
ALL_KEY = "open uploads"

FindOpen = Callable[[Collection[str]], Collection[str]]
"""Returns those of the sessions that have not ended."""


@dataclass(frozen=True, slots=True)
class _OpenUploadsRecord:
    """The open uploads of a share link as they are stored."""

    uploads: Mapping[str, Any]
    """[sender, beginning in seconds since the epoch], by session."""
    version: int
    """0 without a record."""
    total: int
    """The uploads through all share links."""

    def has_room(self, sender: str) -> bool:
        """True if another upload of a sender is within the bounds of the share link."""
        own = sum(upload[0] == sender for upload in self.uploads.values())
        return own < MAX_OPEN_UPLOADS_PER_SENDER and len(self.uploads) < MAX_OPEN_UPLOADS_PER_SHARE


def _make_key(number: int) -> str:
    return f"{ALL_KEY}#{number}"


def _read(number: int) -> _OpenUploadsRecord:
    with translate_errors():
        keys = [_make_key(number), ALL_KEY]
        stored = {counter.key: counter for counter in Counter.batch_get(keys, consistent_read=True)}
    own, total = stored.get(keys[0]), stored.get(ALL_KEY)
    return _OpenUploadsRecord(
        (own.changes or {}) if own else {}, int(own.value) if own else 0, int(total.value) if total else 0
    )


def _write(number: int, state: _OpenUploadsRecord, uploads: Mapping[str, Any]) -> None:
    """Replace the uploads of a share link. Raise RecordConflict if they were changed, or if there are too many."""
    own, all_uploads = Counter(_make_key(number)), Counter(ALL_KEY)
    difference = len(uploads) - len(state.uploads)
    is_read = Counter.value == state.version if state.version else Counter.key.does_not_exist()
    has_room = Counter.key.does_not_exist() | (Counter.value <= MAX_OPEN_SHARED_UPLOADS - difference)
    with translate_errors(), transaction(Counter) as write:
        if uploads:
            write.update(own, actions=[Counter.changes.set(uploads), Counter.value.add(1)], condition=is_read)
        else:
            write.delete(own, condition=is_read)
        if difference:
            write.update(
                all_uploads, actions=[Counter.value.add(difference)], condition=has_room if difference > 0 else None
            )


def begin(number: int, sender: str, id: str, seconds: float, find_open: FindOpen) -> bool:
    """Count an upload of a sender through the share link `number`. False, and nothing is counted, above a bound.

    An upload is forgotten `seconds` after its beginning. At a bound, those that have ended are forgotten, too.
    """
    for _ in range(MAX_ATTEMPTS):
        state, now = _read(number), time.time()
        uploads = {key: upload for key, upload in state.uploads.items() if upload[1] > now - seconds}
        if not _OpenUploadsRecord(uploads, 0, 0).has_room(sender):
            uploads = _drop_ended(uploads, now, find_open)
        is_full = state.total + len(uploads) - len(state.uploads) >= MAX_OPEN_SHARED_UPLOADS
        if is_full or not _OpenUploadsRecord(uploads, 0, 0).has_room(sender):
            return False
        try:
            _write(number, state, uploads | {id: [sender, now]})
            return True
        except RecordConflict:
            time.sleep(random.random() * MAX_PAUSE_SECONDS)
    raise RecordsUnavailable


def _drop_ended(uploads: Mapping[str, Any], now: float, find_open: FindOpen) -> dict[str, Any]:
    open_ids = set(find_open(list(uploads)))
    return {key: upload for key, upload in uploads.items() if key in open_ids or upload[1] > now - NEW_SECONDS}


def end(number: int, id: str) -> None:
    """Forget an upload, if it is counted. One that meets many others is forgotten later, by `begin`."""
    for _ in range(MAX_ATTEMPTS):
        state = _read(number)
        if id not in state.uploads:
            return
        try:
            _write(number, state, {key: upload for key, upload in state.uploads.items() if key != id})
            return
        except RecordConflict:
            time.sleep(random.random() * MAX_PAUSE_SECONDS)
