"""WebDAV locks: who may change what, until when. One record for each path that is locked, with all locks on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pynamodb.attributes import JSONAttribute, TTLAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import DoesNotExist

from mangrove.core.paths import TreePath
from mangrove.records.files.path_keys import make_key, make_prefix
from mangrove.records.store.base import Conflict, Record, TableMeta, retry_on_conflict, table_name, translate_errors

TREE = "tree"  # the one partition: what lies below a path is found by its beginning
MOST_ON_PATH = 64  # shared locks that one path may have


class LockRecord(Record):
    """`locks`: the fields of each `Lock`."""

    class Meta(TableMeta):
        table_name = table_name("locks")

    tree = UnicodeAttribute(hash_key=True)
    key = UnicodeAttribute(range_key=True)
    path = UnicodeAttribute()
    locks = JSONAttribute()
    expires = TTLAttribute()
    version = VersionAttribute()


@dataclass(frozen=True, slots=True)
class Lock:
    """A write lock (RFC 4918, 7). `path` in the tree, absolute; `is_deep`: with all below it; `owner`: what the client
    calls itself, as XML; `user_id`: whose it is; `expires`: seconds since the epoch."""

    token: str
    path: str
    is_exclusive: bool
    is_deep: bool
    owner: str
    user_id: int
    expires: float

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.expires > time.time()


class Locked(Conflict):
    """A lock that is there excludes the one that is wanted. `path`: what it is on."""

    text = "it is locked"

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


def find_covering(path: TreePath) -> list[Lock]:
    """The locks on a path: its own, and those of folders above it that include what is below."""
    keys = {make_key(str(one)): str(one) for one in path.ancestors()}
    with translate_errors():
        found = list(LockRecord.batch_get([(TREE, key) for key in keys], consistent_read=True))
    return [lock for lock in _read(found) if lock.is_deep or lock.path == path]


def find_below(path: TreePath) -> list[Lock]:
    """The locks on what lies below a path."""
    beginning = "/" if path == "/" else f"{path}/"
    condition = LockRecord.key.startswith(make_prefix(beginning))
    with translate_errors():
        found = list(LockRecord.query(TREE, condition, consistent_read=True))
    return [lock for lock in _read(found) if lock.path != path and lock.path.startswith(beginning)]


def take(lock: Lock) -> None:
    """Take a lock; Locked where another one excludes it.

    It is written before the last look at the others, so that of two that exclude each other at least one is seen: of
    two on one path exactly one is taken, of two above each other at most one.
    """
    _check_others(lock)
    _add(lock)
    try:
        _check_others(lock)
    except Locked:
        release(lock)
        raise


def _check_others(lock: Lock) -> None:
    path = TreePath(lock.path)
    others = find_covering(path) + (find_below(path) if lock.is_deep else [])
    for other in others:
        if other.token != lock.token and (lock.is_exclusive or other.is_exclusive):
            raise Locked(other.path)


@retry_on_conflict
def _add(lock: Lock) -> None:
    record = _find(lock.path) or LockRecord(TREE, make_key(lock.path), path=lock.path)
    kept = [one for one in _read([record]) if one.token != lock.token]
    if len(kept) >= MOST_ON_PATH or any(lock.is_exclusive or one.is_exclusive for one in kept):
        raise Locked(lock.path)
    _save(record, [*kept, lock])


def refresh(lock: Lock, expires: float) -> bool:
    """Let a lock last until then; whether it was still there."""
    return _change(lock, lambda found: Lock(**(asdict(found) | {"expires": expires})))


def release(lock: Lock) -> bool:
    """Give a lock up; whether it was there."""
    return _change(lock, lambda _: None)


@retry_on_conflict
def _change(lock: Lock, change: Callable[[Lock], Lock | None]) -> bool:
    record = _find(lock.path)
    found = [] if record is None else _read([record])
    if record is None or all(one.token != lock.token for one in found):
        return False
    changed = [change(one) if one.token == lock.token else one for one in found]
    _save(record, [one for one in changed if one is not None])
    return True


def remove(locks: Collection[Lock]) -> None:
    """Drop locks of what is gone."""
    for lock in locks:
        release(lock)


def sweep() -> None:
    """Remove what has ended: DynamoDB does so by itself, the engine on one machine does not."""
    with translate_errors():
        for record in LockRecord.scan(LockRecord.expires < datetime.now(UTC)):
            try:
                with translate_errors():
                    record.delete()
            except Conflict:
                pass  # locked anew meanwhile


def _find(path: str) -> LockRecord | None:
    with translate_errors():
        try:
            return LockRecord.get(TREE, make_key(path), consistent_read=True)
        except DoesNotExist:
            return None


def _read(records: Iterable[LockRecord]) -> list[Lock]:
    """The locks of records that have not ended."""
    found = [Lock(**fields) for record in records for fields in _get_fields(record)]
    return [lock for lock in found if lock.is_alive]


def _get_fields(record: LockRecord) -> list[dict[str, Any]]:
    return record.locks or []


def _save(record: LockRecord, locks: Collection[Lock]) -> None:
    with translate_errors():
        if not locks:
            record.delete()
            return
        record.locks = [asdict(one) for one in locks]
        record.expires = datetime.fromtimestamp(max(one.expires for one in locks) + 1, UTC)
        record.save()
