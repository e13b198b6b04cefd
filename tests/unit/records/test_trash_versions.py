"""The versions of many files that are too many: the same as file by file, in few queries."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mangrove.records import trash
from mangrove.records.store import raw_rows
from mangrove.records.trash import TrashEntry, TrashKind

STORAGE_ID, OTHER_STORAGE_ID = 1, 2
PATHS = [
    *(f"/d/{number:02}" for number in range(20)),
    "/a", "/a/b", "/a.txt", "/a!", "/a~", "/ä", "/\U0001f333", "/\uffee", f"/{'x' * 1000}", f"/{'x' * 1001}",
]  # fmt: skip
COUNTS = {path: index % 5 for index, path in enumerate(PATHS)}  # versions by file


def make_version(path: str, number: int, storage_id: int = STORAGE_ID) -> TrashEntry:
    id = trash.make_first_id(1000 + number) + f"{number:016x}"
    return TrashEntry(id, storage_id, path, False, 1, 1.0, 1, "u", TrashKind.VERSION)


@pytest.fixture
def versions(records: None) -> dict[str, list[TrashEntry]]:
    """The versions of each file, the oldest first; those of another storage are in the records, too."""
    versions = {path: [make_version(path, number) for number in range(COUNTS[path])] for path in PATHS}
    trash.finish(*(version for file in versions.values() for version in file))
    trash.finish(*(make_version(path, number, OTHER_STORAGE_ID) for path in PATHS for number in range(3)))
    return versions


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that each query may read."""
    limits: list[int] = []
    query_rows = raw_rows.query_rows

    def query(model: Any, limit: int, arguments: dict[str, Any]) -> Any:
        limits.append(limit)
        return query_rows(model, limit, arguments)

    monkeypatch.setattr(trash, "query_rows", query)
    return limits


@pytest.mark.parametrize("max_rows", [3, 1000])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_versions_of_many_files_are_those_of_each(
    versions: dict[str, list[TrashEntry]], monkeypatch: pytest.MonkeyPatch, max_rows: int, count: int
) -> None:
    monkeypatch.setattr(trash, "MAX_ROWS_PER_QUERY", max_rows)
    generator = random.Random(1)
    for size in (1, 2, 5, len(PATHS)):
        for _ in range(4):
            paths = generator.sample(PATHS, size)
            expected = {
                row.id + path for path in paths for row in versions[path][: max(len(versions[path]) - count, 0)]
            }
            rows = trash.list_excess_versions([make_version(path, 9) for path in paths], count)
            assert {row.id + row.path for row in rows} == expected
            assert len(rows) == len(expected)


def test_files_of_a_folder_share_a_query(versions: dict[str, list[TrashEntry]], limits: list[int]) -> None:
    entries = [make_version(path, 9) for path in PATHS if path.startswith("/d/")]
    assert len(trash.list_excess_versions(entries, 3)) == 4
    assert limits == [len(entries) * 4 + 1]


def test_files_far_apart_cost_few_rows(records: None, limits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files at the ends of a folder of many: the others are not all read."""
    monkeypatch.setattr(trash, "MAX_ROWS_PER_QUERY", 20)
    trash.finish(*(make_version(f"/{number:03}", 0) for number in range(200)))
    assert trash.list_excess_versions([make_version("/000", 9), make_version("/199", 9)], 1) == []
    assert sum(limits) <= 8
