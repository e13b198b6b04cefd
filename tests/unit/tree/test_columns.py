"""Entries in columns come out as they went in, and weigh little."""

from __future__ import annotations

import pytest

from mangrove.drivers.base import Entry
from mangrove.drivers.plain_entries import PlainEntries
from mangrove.tree.listing.columns import MAX_SIZE, Columns, Selection

PLAIN = [Entry("a", 1, 2.5, False), Entry("b", 0, 0.0, True)]
RICH = [
    Entry("ä/\U0001f600", None, -1.0, False, created=3.5, hashes={"md5": "00"}, thumb=True),
    Entry("", 5, 1e10, False, etag="x", provider="p", url="https://u"),
    Entry("link", 7, 1.0, True, is_link=True),
]


@pytest.mark.parametrize("batches", [[PLAIN], [RICH], [PLAIN, RICH], [RICH, PLAIN], [[], PLAIN, [], RICH, PLAIN]])
def test_entries_come_out_as_they_went_in(batches: list[list[Entry]]) -> None:
    columns = Columns()
    for batch in batches:
        columns.extend(batch)
    columns.freeze()
    expected = [entry for batch in batches for entry in batch]
    everything = Selection(columns, range(len(columns)))
    assert list(everything) == expected
    assert everything[1:3] == expected[1:3]


@pytest.mark.parametrize("before", [[], PLAIN, RICH], ids=["nothing", "plain", "rich"])
def test_plain_entries_are_those_of_a_list(before: list[Entry]) -> None:
    plain = PlainEntries(["c", "é"], [3, 0], [1.5, 2.5], b"\0\1")
    entries = [Entry("c", 3, 1.5, False), Entry("é", 0, 2.5, True)]
    assert [*plain] == entries and [*plain[1:]] == entries[1:] and plain[0] == entries[0] and len(plain) == 2
    columns = Columns()
    columns.extend(before)
    columns.extend(plain)
    columns.extend(PLAIN)
    assert [columns[index] for index in range(len(columns))] == [*before, *entries, *PLAIN]
    assert not columns.names.is_sorted


def test_a_size_beyond_all_bounds_is_the_largest_one() -> None:
    columns = Columns()
    columns.extend([Entry("a", 1, 0.0, False), Entry("b", 10**30, 0.0, False), Entry("c", 3, 0.0, False)])
    assert [columns[index].size for index in range(3)] == [1, MAX_SIZE, 3]


@pytest.mark.parametrize("is_rich", [False, True])
def test_an_entry_costs_at_most_200_bytes_at_rest(is_rich: bool) -> None:
    etag = "d41d8cd98f00b204e9800998ecf8427e-10" if is_rich else ""
    columns = Columns()
    for start in range(0, 100_000, 1000):
        names = (f"a rather ordinary name {number:07}.txt" for number in range(start, start + 1000))
        columns.extend([Entry(name, 12345, 1.7e9, False, created=1.6e9 * is_rich, etag=etag) for name in names])
    columns.freeze()
    assert columns.weight / len(columns) < (140 if is_rich else 80)


@pytest.mark.parametrize(
    "batches",
    [
        [["a", "b"], ["c"]], [["a", "c"], ["b"]], [["a"], ["a"]], [["b", "a"]], [[], ["a"], [], ["b"]],
        [["z"], ["é", "\udc80"], ["\U0001f600"]], [["é"], ["z"]], [["z", "é"], ["é"]],
    ],
)  # fmt: skip
def test_names_know_if_they_are_sorted(batches: list[list[str]]) -> None:
    columns, names = Columns(), [name for batch in batches for name in batch]
    for batch in batches:
        columns.extend([Entry(name, 1, 0.0, False) for name in batch])
    assert columns.names.is_sorted == (names == sorted(set(names)))
