"""The version of the configuration: users, storages, rules and settings.

Every write of one of them raises the version in the same transaction, and leaves a note of what changed, which the
sweep of the counters removes in the end. Whoever knows version 7 reads the notes of 8 and later to learn which
records to read anew.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

from pynamodb.exceptions import DoesNotExist
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from mangrove.core.limits import limits
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store.base import RecordConflict, transaction, translate_errors
from mangrove.records.store.counters import Counter

KEY = "configuration"
KEPT_HOURS = 1  # a process that asks later reads everything
MOST_NOTES = 50  # that are read one by one
ATTEMPTS = 20  # at a version that others raise at the same time


def get_version() -> int:
    """The present version; 0 before the first change."""
    with translate_errors():
        try:
            return int(Counter.get(KEY, consistent_read=True).value)
        except DoesNotExist:
            return 0


def write(model: type[Model], kind: str, ids: Collection[int | str], add: Callable[[TransactWrite], object]) -> None:
    """Make the writes that `add` adds to a transaction, and raise the version; all of it happens or nothing.

    `ids`: the records of `kind` that change. RecordConflict with `failed` of the writes that were added.
    """
    with limits().configuration_writes:
        for attempt in range(ATTEMPTS):
            try:
                with translate_errors(), transaction(model) as transact:
                    add(transact)
                    _raise_version(transact, get_version(), {kind: list(ids)})
                change_counters().bump(Topic.CONFIGURATION)
                return
            except RecordConflict as conflict:
                own = conflict.failed[:-2]  # the last two are those of the version
                if any(own) or not conflict.failed or attempt == ATTEMPTS - 1:
                    raise RecordConflict(own) from None
            time.sleep(random.uniform(0, 0.01 * (attempt + 1)))


def _raise_version(transact: TransactWrite, version: int, changes: Mapping[str, list[int | str]]) -> None:
    """Add the next version and its note to a transaction, which fails when `version` is no longer the present one."""
    condition = Counter.value == version if version else Counter.key.does_not_exist()
    transact.update(Counter(KEY), actions=[Counter.value.set(version + 1)], condition=condition)
    expires = datetime.now(UTC) + timedelta(hours=KEPT_HOURS)
    transact.save(Counter(_make_key(version + 1), changes=changes, expires=expires))


def _make_key(version: int) -> str:
    return f"change#{version}"


def read_changes(known: int, version: int) -> Mapping[str, set[int | str]] | None:
    """What changed after the version `known` up to `version`, kind → ids; None when that is not known any more."""
    if not 0 < version - known <= MOST_NOTES:
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
