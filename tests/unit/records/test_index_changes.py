"""The log of changes: in the order of its numbers, whatever names are in it."""

from __future__ import annotations

import json
import time

import pytest

from mangrove.records import index_changes
from mangrove.records.index_changes import MAX_NAMES_PER_CHANGE, ChangeKind, IndexChange, IndexedName

pytestmark = pytest.mark.usefixtures("records")


def test_changes_are_read_in_order_after_a_number() -> None:
    rows = index_changes.number_changes([IndexChange(1, ChangeKind.READ, f"/{number}") for number in range(60)])
    index_changes.write(rows)
    assert index_changes.read() == rows == sorted(rows, key=lambda row: row.number)
    assert index_changes.read(rows[10].number) == rows[11:]
    assert index_changes.read(limit=7) == rows[:7]
    index_changes.write([], [row.number for row in rows[1:]])
    assert index_changes.read() == rows[:1]


@pytest.mark.parametrize("name", ["a" * 251, "\U0001f600" * 62])
def test_changes_of_the_largest_size_are_written_together(name: str) -> None:
    entries = [IndexedName(f"{number:04}{name}", False, 2**53, 1.7e9, 1) for number in range(MAX_NAMES_PER_CHANGE)]
    changes = [IndexChange(1, ChangeKind.NAMES, f"/{number}", entries=tuple(entries)) for number in range(100)]
    index_changes.add(*changes)
    assert [(row.path, row.entries) for row in index_changes.read()] == [(row.path, row.entries) for row in changes]


def test_change_keeps_names_that_are_not_unicode() -> None:
    names = tuple(IndexedName(name, False, None, 1.5) for name in ("文", "\udcff", "\x1a", "a\nb", "😀" * 60))
    change = IndexChange(3, ChangeKind.MOVE, "/é", target="/b", entries=names, removed=("\ud800", "'"))
    index_changes.add(change)
    (row,) = index_changes.read()
    assert (row.entries, row.removed, row.path, row.target, row.kind) == (
        names, change.removed, "/é", "/b", ChangeKind.MOVE,
    )  # fmt: skip


def test_change_of_an_earlier_version_has_no_user() -> None:
    old, new = IndexedName("old", False, 1, 1.5), IndexedName("new", False, 1, 1.5, 7)
    index_changes.add(IndexChange(1, ChangeKind.NAMES, entries=(old, new)))
    (row,) = index_changes.IndexChangeRecord.query(index_changes.LOG)
    assert json.loads(row.content)["entries"] == [["old", False, 1, 1.5], ["new", False, 1, 1.5, 7]]
    assert index_changes.read()[0].entries == (old, new)


def test_number_is_above_the_last_one_of_the_process() -> None:
    for number in range(500):  # a time in seconds is not the same number for each microsecond
        late = index_changes.make_number(time.time() + 3600 + number * 1e-6) + "-x"
        (change,) = index_changes.number_changes([IndexChange(1, ChangeKind.READ)], late)
        assert change.number > late
    assert abs(index_changes.read_seconds(late) - time.time() - 3600) < 60


def test_delete_of_a_storage_leaves_the_others_and_its_segments() -> None:
    index_changes.add(*(IndexChange(id, kind) for id in (1, 2) for kind in (ChangeKind.READ, ChangeKind.INDEX)))
    index_changes.delete_of(1)
    assert [(row.storage_id, row.kind) for row in index_changes.read()] == [
        (1, ChangeKind.INDEX), (2, ChangeKind.READ), (2, ChangeKind.INDEX),
    ]  # fmt: skip
