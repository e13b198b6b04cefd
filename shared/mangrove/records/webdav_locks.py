"""WebDAV locks (RFC 4918, 7).

There is a record for each locked file or folder, with all locks on it, and one for each user, which counts their locks.
Both are written in one transaction. The key of a file is its location in its storage, not its path in the tree: a file
that is shown at several paths has one key.

They are not leases: a client holds them, not a process. They end at the time that the client was told, and nobody takes
them over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pynamodb.attributes import JSONAttribute, TTLAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.transactions import TransactWrite

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.records.path_keys import make_entries_prefix, make_entry_key, make_prefix
from mangrove.records.store.base import (
    Record,
    RecordConflict,
    TableMeta,
    retry_on_conflict,
    table_name,
    transaction,
    translate_errors,
)
from mangrove.records.store.empty_partitions import Partition, announce_records

MAX_LOCKS_PER_FILE = 16  # shared locks
MAX_LOCKS_PER_USER = 100
MAX_FILES_PER_LOCK = 8  # behind its path, through an alias of several folders
RECORDS_PER_CALL = 1000  # that are read to find a lock
USER_KEY = "locks"  # of the record of a user


class LockRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("webdav_locks")

    storage = UnicodeAttribute(hash_key=True)  # see `LockedFile`; `user#<id>` in the record of a user
    key = UnicodeAttribute(range_key=True)  # see `make_entry_key`
    path = UnicodeAttribute()  # see `LockedFile`
    locks = JSONAttribute()  # the fields of each `Lock`; in the record of a user `token` and `expires`
    expires = TTLAttribute()
    version = VersionAttribute()


class LockedFile(NamedTuple):
    """A file or folder in its storage."""

    storage: str  # the name of the storage, or of the tree for a folder that only leads to storages
    path: TreePath  # the path inside it


@dataclass(frozen=True, slots=True)
class Lock:
    """A write lock."""

    token: str
    path: str  # in the tree, absolute: as its user locked it
    is_exclusive: bool
    is_deep: bool  # it covers everything below the path as well
    owner: str  # the text with which the client describes itself, as XML
    user_id: int
    expires: float  # seconds since the epoch
    files: Sequence[tuple[str, str]] = ()  # the `LockedFile`s at the path
    file: tuple[str, str] = ("", "")  # the one of them from whose record it was read

    @property
    def is_alive(self) -> bool:
        """True if it has not expired."""
        return self.expires > time.time()


class LockConflict(RecordConflict):
    """Another lock excludes the requested one."""

    text = "it is locked"

    def __init__(self, other: Lock) -> None:
        super().__init__()
        self.other = other


class LockQuotaExceeded(Problem):
    """A user, or a file, has the maximum number of locks."""

    text = f"one user may hold {MAX_LOCKS_PER_USER} locks, one file may have {MAX_LOCKS_PER_FILE}"


class _AllLocks(Partition):
    """The locks on all files."""

    def read_empty(self) -> bool:
        with translate_errors():
            records = LockRecord.scan(~LockRecord.storage.startswith("user#"), limit=1, page_size=RECORDS_PER_CALL)
            return next(iter(records), None) is None


ALL_LOCKS = _AllLocks(LockRecord, "*")  # no storage has this name


def read(files: Collection[LockedFile]) -> dict[LockedFile, list[Lock]]:
    """Return the locks on each of the files that has any, with one call per 100 files."""
    empty = {storage for storage in {file.storage for file in files} if Partition(LockRecord, storage).is_empty()}
    keys = dict.fromkeys((file.storage, make_entry_key(file.path)) for file in files if file.storage not in empty)
    if not keys:
        return {}
    with translate_errors():
        records = list(LockRecord.batch_get(keys, consistent_read=True))
    locks = {LockedFile(record.storage, TreePath(record.path)): _read_locks(record) for record in records}
    return {file: file_locks for file, file_locks in locks.items() if file_locks}


def find_entries(folder: LockedFile) -> list[Lock]:
    """Return the locks on the entries of a folder, in one query."""
    locks = _find(folder.storage, make_entries_prefix(folder.path))
    return [lock for lock in locks if lock.file[1] != "/" and TreePath(lock.file[1]).parent == folder.path]


def find_below(folder: LockedFile) -> list[Lock]:
    """Return the locks on everything below a folder, in one query."""
    locks = _find(folder.storage, "/" if folder.path == "/" else f"{folder.path}/")
    return [lock for lock in locks if lock.file[1] != folder.path and TreePath(lock.file[1]).within(folder.path)]


def _find(storage: str, prefix: str) -> list[Lock]:
    if Partition(LockRecord, storage).is_empty():
        return []
    condition = LockRecord.key.startswith(make_prefix(prefix))
    with translate_errors():
        records = list(LockRecord.query(storage, condition, consistent_read=True))
    return [lock for record in records for lock in _read_locks(record)]


def find_all() -> list[Lock]:
    """Return all locks, each once, by path."""
    with translate_errors():
        records = list(LockRecord.scan(~LockRecord.storage.startswith("user#")))
    locks = {lock.token: lock for record in records for lock in _read_locks(record)}
    return sorted(locks.values(), key=lambda lock: (lock.path, lock.token))


@retry_on_conflict
def add(lock: Lock) -> None:
    """Store a lock on each of its files. Raise LockConflict if another one on the same file excludes it, or
    LockQuotaExceeded.

    Locks above and below are not checked.
    """
    user = _get_user(lock.user_id)
    tokens = _read_tokens(user)
    if len(tokens) >= MAX_LOCKS_PER_USER:
        raise LockQuotaExceeded
    changes: list[tuple[LockRecord, list[Lock]]] = []
    for storage, path in lock.files:
        record = _get(LockedFile(storage, TreePath(path)))
        others = _read_locks(record)
        for other in others:
            if lock.is_exclusive or other.is_exclusive:
                raise LockConflict(other)
        if len(others) >= MAX_LOCKS_PER_FILE:
            raise LockQuotaExceeded
        changes.append((record, [*others, lock]))
    _write(user, tokens | {lock.token: lock.expires}, changes)


def refresh(lock: Lock, expires: float) -> bool:
    """Extend a lock. Return False if it does not exist any more."""
    return _change(lock, lambda present: replace(present, expires=expires))


def release(lock: Lock) -> bool:
    """Release a lock. Return False if it did not exist."""
    return _change(lock, lambda _: None)


@retry_on_conflict
def _change(lock: Lock, change: Callable[[Lock], Lock | None]) -> bool:
    user = _get_user(lock.user_id)
    tokens = _read_tokens(user)
    if tokens.pop(lock.token, None) is None:
        return False
    changed = change(lock)
    if changed is not None:
        tokens[lock.token] = changed.expires
    records = [_get(LockedFile(storage, TreePath(path))) for storage, path in lock.files]
    others = [[other for other in _read_locks(record) if other.token != lock.token] for record in records]
    replacement = [] if changed is None else [changed]
    _write(user, tokens, [(record, [*rest, *replacement]) for record, rest in zip(records, others, strict=True)])
    return True


def remove(locks: Iterable[Lock]) -> None:
    """Release locks that do not apply any more."""
    for lock in {lock.token: lock for lock in locks}.values():
        release(lock)


def _get(file: LockedFile) -> LockRecord:
    """Return the record of a file, a new one if there is none."""
    key = make_entry_key(file.path)
    return LockRecord.find(file.storage, key) or LockRecord(file.storage, key, path=str(file.path), locks=[])


def _get_user(user_id: int) -> LockRecord:
    key = f"user#{user_id}", USER_KEY
    return LockRecord.find(*key) or LockRecord(*key, path="/", locks=[])


def _read_locks(record: LockRecord) -> list[Lock]:
    """Return the locks of a record that have not expired."""
    file = record.storage, str(record.path)
    fields: list[dict[str, Any]] = record.locks or []
    locks = [Lock(**{**each, "files": [tuple(place) for place in each["files"]], "file": file}) for each in fields]
    return [lock for lock in locks if lock.is_alive]


def _read_tokens(record: LockRecord) -> dict[str, float]:
    """Return the tokens of a user's unexpired locks, with their expiry."""
    now = time.time()
    return {each["token"]: each["expires"] for each in record.locks or [] if each["expires"] > now}


def _write(
    user: LockRecord, tokens: Mapping[str, float], changes: Collection[tuple[LockRecord, Sequence[Lock]]]
) -> None:
    """Save the record of a user and those of files, all or nothing. Raise RecordConflict."""
    own = [{"token": token, "expires": expires} for token, expires in tokens.items()]
    partitions = {Partition(LockRecord, record.storage) for record, locks in changes if locks}
    if partitions:
        partitions.add(ALL_LOCKS)
    with announce_records(partitions), translate_errors(), transaction(LockRecord) as write:
        _add_write(write, user, own)
        for record, locks in changes:
            _add_write(write, record, [_make_fields(lock) for lock in locks])


def _add_write(write: TransactWrite, record: LockRecord, fields: Sequence[Mapping[str, Any]]) -> None:
    if fields:
        record.locks = list(fields)
        record.expires = datetime.fromtimestamp(max(each["expires"] for each in fields) + 1, UTC)
        write.save(record)
    elif record.version is not None:
        write.delete(record)


def _make_fields(lock: Lock) -> dict[str, Any]:
    fields = asdict(lock)
    del fields["file"]
    return fields
