"""Marks on the real engine: written in few calls, deep beside shallow, deleted only as they were read."""

from __future__ import annotations

import time

import pytest

from mangrove.records.files import index_marks
from mangrove.records.files.index_marks import Mark, Place
from mangrove.records.store.base import count_calls

pytestmark = pytest.mark.usefixtures("records")


def find(storage_id: int) -> set[tuple[str, bool]]:
    return {(mark.path, mark.deep) for mark in index_marks.list_of(storage_id, 100)}


def test_a_folder_is_marked_when_and_as_it_is_said() -> None:
    before = time.time()
    index_marks.put(3, [("/a", False), ("/", False)])
    marks = sorted(index_marks.list_of(3, 10), key=lambda mark: mark.path)
    assert [(mark.storage_id, mark.path, mark.deep) for mark in marks] == [(3, "/", False), (3, "/a", False)]
    assert all(before <= mark.noted <= time.time() and mark.version for mark in marks)
    assert index_marks.list_of(4, 10) == []


def test_neither_a_deep_mark_nor_a_shallow_one_replaces_the_other() -> None:
    index_marks.put(3, [("/a", True)])
    index_marks.put(3, [("/a", False)])
    assert find(3) == {("/a", True), ("/a", False)}


def test_many_marks_of_several_storages_are_written_25_in_a_call_and_read_up_to_a_limit() -> None:
    before = count_calls()
    index_marks.put_many([Place(storage, f"/é{number}") for storage in (1, 2) for number in range(30)])
    assert count_calls() - before == 3
    assert len(find(1)) == len(find(2)) == 30
    assert len(index_marks.list_all(1000)) == 60
    assert len(index_marks.list_all(45)) == 45
    assert len(index_marks.list_of(1, 7)) == 7


def test_a_mark_that_was_noted_anew_since_it_was_read_stays() -> None:
    index_marks.put(3, [(f"/{number}", False) for number in range(120)])
    read: list[Mark] = index_marks.list_of(3, 1000)
    index_marks.put(3, [("/7", False), ("/110", False), ("/7", True)])
    index_marks.delete([*read, *read])
    assert find(3) == {("/7", False), ("/110", False), ("/7", True)}
    index_marks.delete(read)
    assert len(find(3)) == 3


def test_all_marks_of_a_storage_are_deleted_at_once() -> None:
    index_marks.put(3, [(f"/{number}", number % 2 == 0) for number in range(60)])
    index_marks.put(4, [("/", False)])
    index_marks.delete_of(3)
    assert [mark.storage_id for mark in index_marks.list_all(100)] == [4]
