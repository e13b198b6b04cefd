"""Partitions without records are not read again until some process adds one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.runtime import CacheKind
from mangrove.core.shared_memory import change_counters
from mangrove.records import webdav_locks, webdav_properties
from mangrove.records.store import empty_partitions
from mangrove.records.store.base import count_calls
from mangrove.records.store.empty_partitions import Partition, announce_records
from mangrove.records.webdav_locks import Lock, LockedFile, LockRecord
from tests.support.platforms import use_cloud, use_standalone

FILE = LockedFile("files#a", TreePath("/d/f"))
PARTITION = Partition(LockRecord, FILE.storage)


@pytest.fixture(autouse=True)
def _own_engine(records: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_standalone(tmp_path), "has_own_engine", True)


def make_lock(token: str) -> Lock:
    return Lock(token, "/d/f", True, False, "", 7, 4e9, [FILE])


def save_record() -> None:
    LockRecord(FILE.storage, "key", path="/d/f", locks=[], expires=datetime.now(UTC)).save()


def count_read(expected: int) -> None:
    before = count_calls()
    assert webdav_locks.read([FILE]) == {} and webdav_locks.find_below(FILE) == []
    assert count_calls() - before == expected


def test_storage_without_locks_is_read_once_until_one_is_added() -> None:
    count_read(1)
    count_read(0)
    webdav_locks.add(make_lock("one"))
    assert [lock.token for lock in webdav_locks.read([FILE])[FILE]] == ["one"]
    assert webdav_locks.read([LockedFile("files#b", FILE.path)]) == {}


def test_storage_whose_last_lock_is_gone_is_empty_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    webdav_locks.add(make_lock("one"))
    assert not PARTITION.is_empty()
    webdav_locks.release(make_lock("one"))
    count_read(2)  # nobody announced the removal
    monkeypatch.setattr(empty_partitions, "MAX_AGE_SECONDS", 0.0)
    count_read(1)
    count_read(0)


def test_known_empty_needs_no_call_until_a_lock_is_added() -> None:
    assert not webdav_locks.ALL_LOCKS.is_known_empty(), "nobody has looked"
    assert webdav_locks.ALL_LOCKS.is_empty()
    before = count_calls()
    assert webdav_locks.ALL_LOCKS.is_known_empty()
    assert count_calls() == before
    webdav_locks.add(make_lock("one"))
    assert not webdav_locks.ALL_LOCKS.is_known_empty()
    assert not webdav_locks.ALL_LOCKS.is_empty()
    webdav_locks.release(make_lock("one"))
    assert not webdav_locks.ALL_LOCKS.is_known_empty(), "nobody announced the removal"


def test_look_while_a_record_is_added_is_repeated() -> None:
    with announce_records([PARTITION]):
        assert PARTITION.is_empty()
        save_record()
    assert not PARTITION.is_empty()


def test_records_of_a_process_that_died_between_announcements_are_found() -> None:
    assert PARTITION.is_empty()
    save_record()
    change_counters().bump_all()  # what the parent process does
    assert not PARTITION.is_empty()


def test_engine_that_others_may_use_is_always_read() -> None:
    use_cloud()
    count_read(2)
    count_read(2)


def test_knowledge_of_many_partitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empty_partitions, "SEEN_PARTITIONS", CacheKind("two seen partitions", 2))
    for number, calls in ((1, 1), (2, 1), (1, 0), (3, 1), (2, 1)):
        before = count_calls()
        assert Partition(LockRecord, f"files#{number}").is_empty()
        assert count_calls() - before == calls


def test_properties_of_a_storage_without_any_cost_one_call() -> None:
    before = count_calls()
    assert webdav_properties.get(1, TreePath("/a")) == {} == webdav_properties.find_in(1, TreePath("/"))
    webdav_properties.remove(1, TreePath("/a"))
    webdav_properties.move(1, TreePath("/a"), 1, TreePath("/b"))
    assert webdav_properties.get_many(1, TreePath("/"), ["a"]) == {}
    assert count_calls() - before == 1
    webdav_properties.put(1, TreePath("/a"), {"{u}c": "<c/>"}, 7)
    assert webdav_properties.find_in(1, TreePath("/")) == {"a": {"{u}c": "<c/>"}}
