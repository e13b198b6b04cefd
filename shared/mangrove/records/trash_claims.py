"""Claims on entries of the trash: of several requests for an entry, one restores or deletes it.

An entry is claimed by a transaction that requires its row and writes an intent. A deletion also removes the row, so
that no other request can claim the entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from secrets import token_hex
from typing import Any

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import RecordConflict, get_connection, translate_errors
from mangrove.records.store.raw_rows import MAX_ATTEMPTS, pause
from mangrove.records.trash import Action, Intent, TrashEntry, TrashRecord, make_intent_row, make_key, make_row

MAX_ENTRIES_PER_TRANSACTION = 50  # each with two rows
IS_THERE = {"ConditionExpression": "attribute_exists(id)"}
IS_MISSING = {"ConditionExpression": "attribute_not_exists(id)"}

Write = dict[str, Any]


class ClaimResult(Enum):
    """The result of a claim."""

    TAKEN = "taken"
    GONE = "gone"
    """Another request has restored or deleted the entry."""
    CONTESTED = "contested"
    """The entry has an intent: it is being restored, or was by a process that died."""


def claim_restore(entry: TrashEntry) -> bool:
    """Write the intent to restore an entry. Return False if the entry is not in the trash any more."""
    check = _make_write(make_key(entry), **IS_THERE)
    try:
        _retry(lambda: transact(checks=[check], puts=[_put(make_intent_row(Intent(entry, Action.MOVE, time.time())))]))
    except RecordConflict:
        return False
    return True


def claim_deletions(entries: Sequence[TrashEntry], *, is_locked: bool = False) -> list[ClaimResult]:
    """Write the intents to delete entries, and remove their rows. `is_locked`: the caller holds the locks of all
    entries, so that an intent is that of a process that died."""
    starts = range(0, len(entries), MAX_ENTRIES_PER_TRANSACTION)
    batches = (entries[start : start + MAX_ENTRIES_PER_TRANSACTION] for start in starts)
    return [claim for batch in batches for claim in _claim(batch, is_locked)]


def _claim(entries: Sequence[TrashEntry], is_locked: bool) -> Iterator[ClaimResult]:
    now = time.time()
    deletes = [_make_write(make_key(entry), **IS_THERE) for entry in entries]
    rows = [make_intent_row(Intent(entry, Action.DELETE, now)) for entry in entries]
    puts = [_put(row, **({} if is_locked else IS_MISSING)) for row in rows]
    try:
        _retry(lambda: transact(deletes=deletes, puts=puts))
    except RecordConflict as conflict:
        if len(entries) > 1:
            yield from (claim for entry in entries for claim in _claim([entry], is_locked))
        else:
            yield ClaimResult.GONE if conflict.failed[0] else ClaimResult.CONTESTED
        return
    yield from [ClaimResult.TAKEN] * len(entries)


def finish_removal(entry: TrashEntry) -> None:
    """Write that an entry is in the hidden folder, unless its intent is that of a restore or was finished meanwhile."""
    intent = make_intent_row(Intent(entry, Action.MOVE, 0.0))
    delete = _make_write((intent["place"]["S"], intent["id"]["S"]), **IS_THERE)
    try:
        _retry(lambda: transact(deletes=[delete], puts=[_put(make_row(entry), **IS_MISSING)]))
    except RecordConflict:
        pass


def store_again(entry: TrashEntry) -> None:
    """Store the row of an entry that was measured, unless it was restored or deleted meanwhile."""
    try:
        _retry(lambda: transact(puts=[_put(make_row(entry), **IS_THERE)]))
    except RecordConflict:
        pass


def _put(row: Write, **condition: str) -> Write:
    return {"TableName": TrashRecord.Meta.table_name, "Item": row, **condition}


def _make_write(key: tuple[str, str], **condition: str) -> Write:
    place, id = key
    return {"TableName": TrashRecord.Meta.table_name, "Key": {"place": {"S": place}, "id": {"S": id}}, **condition}


def transact(*, checks: Sequence[Write] = (), deletes: Sequence[Write] = (), puts: Sequence[Write] = ()) -> None:
    """Write all rows, or none. A RecordConflict lists the checks first, then the deletes, then the puts."""
    connection = get_connection(TrashRecord)
    with translate_errors():
        connection.transact_write_items(checks, deletes, puts, (), client_request_token=token_hex(16))


def _retry(write: Callable[[], None]) -> None:
    """Repeat a transaction while another one changes the same rows. Raise RecordConflict for a false condition."""
    for attempt in range(MAX_ATTEMPTS):
        pause(attempt)
        try:
            write()
            return
        except RecordConflict as conflict:
            if any(conflict.failed):
                raise
    raise RecordsUnavailable
