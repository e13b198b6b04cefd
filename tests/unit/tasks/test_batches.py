"""Batches of a copy: small files, as many and as large as a batch may be."""

from __future__ import annotations

import pytest

from mangrove.tasks.core.staging import ManifestEntry
from mangrove.tasks.transfer.batches import MAX_BATCH_BYTES, MAX_SMALL_BYTES, split_batches


def make_rows(*sizes: int | None) -> list[ManifestEntry]:
    """Files of these sizes; folders for -1."""
    return [ManifestEntry(str(number), size, 1.0, size == -1, "") for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([], []),
        ([1] * 7, [3, 3, 1]),
        ([1, -1, 1, 1, MAX_SMALL_BYTES + 1, 1, None, 1, 1], [1, 1, 2, 1, 1, 1, 2]),
        ([0, 0, -1, -1], [2, 1, 1]),
    ],
)
def test_small_files_are_put_together_and_nothing_else(sizes: list[int | None], lengths: list[int]) -> None:
    rows = make_rows(*sizes)
    batches = split_batches(rows, 3)
    assert [len(batch) for batch in batches] == lengths
    assert [row for batch in batches for row in batch] == rows


def test_a_batch_holds_no_more_bytes_than_are_copied_soon() -> None:
    count = MAX_BATCH_BYTES // MAX_SMALL_BYTES
    batches = split_batches(make_rows(*[MAX_SMALL_BYTES] * (2 * count + 1)), 10 * count)
    assert [len(batch) for batch in batches] == [count, count, 1]
