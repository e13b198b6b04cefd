"""The version of the configuration: users, storages, rules and settings.

Each write increments the version in the same transaction and adds a note of the changed records, which expires. A
process that has version 7 reads the notes of version 8 and later to find the records to read again.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from mangrove.core.limits import limits
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store.base import RecordConflict, transaction, translate_errors
from mangrove.records.store.counters import Counter

KEY = "configuration"
NOTE_LIFETIME_HOURS = 1  # a process with an older version reads everything
MAX_NOTES = 50  # for more, a process reads everything
MAX_ATTEMPTS = 20  # while others increment the version at the same time


def get_version() -> int:
    """Return the present version, 0 before the first change."""
    counter = Counter.find(KEY)
    return 0 if counter is None else int(counter.value)


def write(model: type[Model], kind: str, ids: Collection[int | str], add: Callable[[TransactWrite], object]) -> None:
    """Do the writes that `add` adds to a transaction, and increment the version: all of it or nothing.

    `ids` are the records of `kind` that change. RecordConflict is about the writes of `add`.
    """
    with limits().configuration_writes:
        for attempt in range(MAX_ATTEMPTS):
            try:
                with translate_errors(), transaction(model) as transact:
                    add(transact)
                    _raise_version(transact, get_version(), {kind: list(ids)})
                change_counters().bump(Topic.CONFIGURATION)
                return
            except RecordConflict as conflict:
                own = conflict.failed[:-2]  # the last two are those of the version
                if any(own) or not conflict.failed or attempt == MAX_ATTEMPTS - 1:
                    raise RecordConflict(own) from None
            time.sleep(random.uniform(0, 0.01 * (attempt + 1)))


def _raise_version(transact: TransactWrite, version: int, changes: Mapping[str, list[int | str]]) -> None:
    """Add the next version and its note to a transaction, which fails unless `version` is the present one."""
    condition = Counter.value == version if version else Counter.key.does_not_exist()
    transact.update(Counter(KEY), actions=[Counter.value.set(version + 1)], condition=condition)
    expires = datetime.now(UTC) + timedelta(hours=NOTE_LIFETIME_HOURS)
    transact.save(Counter(_make_key(version + 1), changes=changes, expires=expires))


def _make_key(version: int) -> str:
    return f"change#{version}"


def read_changes(known: int, version: int) -> Mapping[str, set[int | str]] | None:
    """Return the changes after the version `known` up to `version`: ids by kind; None if a note is missing."""
    if not 0 < version - known <= MAX_NOTES:
        return None
    keys = [_make_key(number) for number in range(known + 1, version + 1)]
    with translate_errors():
        notes = list(Counter.batch_get(keys, consistent_read=True))
    if len(notes) < len(keys):
        return None
    changes = defaultdict[str, set[int | str]](set)
    for note in notes:
        for kind, ids in note.changes.items():
            changes[kind].update(ids)
    return changes
