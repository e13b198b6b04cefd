"""One listing: its order, its entries by name, and what callers see of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from mangrove.core.chunked import PendingRows
from mangrove.drivers.base import Entry
from mangrove.records.storages import Storage
from mangrove.tree.listing import folder as folders
from mangrove.tree.listing.columns import make_columns
from mangrove.tree.listing.folder import ROWS_PER_CHUNK, CachedFolder, Stamp, View, make_folder
from mangrove.tree.listing.orders import SortOrder, make_caseless_key, make_natural_key, sort_entries
from tests.unit.tree.builders import mount, read_rows, storage


def sort(entries: Sequence[Entry], wish: Storage) -> list[str]:
    return [entry.name for entry in asyncio.run(sort_entries(entries, SortOrder.of(wish)))]


async def make(entries: Sequence[Entry], **fields: str) -> CachedFolder:
    """A listing of a storage that wants this order."""
    return await make_folder(await make_columns(entries), mount(**fields), None, 1.0, Stamp((1, "/")))


def encode(entries: Sequence[Entry]) -> bytes:
    return b",".join(entry.name.encode() for entry in entries)


def test_names_sort_naturally_and_with_case() -> None:
    expected = ["1", "2", "10", "B", "a", "a1", "a2", "a2b", "a10", "a10b2", "a10b11", "b", "ä"]
    shuffled = random.sample(expected, len(expected))
    assert sorted(shuffled, key=make_natural_key) == expected


def test_names_of_a_requested_order_sort_without_case() -> None:
    expected = ["1", "2", "10", "a", "ä", "a1", "a2", "a2b", "A10", "a10b2", "a10B11", "b", "B", "Äpfel", "zoo"]
    expected.insert(expected.index("b"), expected.pop(expected.index("Äpfel")))
    shuffled = random.sample(expected, len(expected))
    assert sorted(shuffled, key=make_caseless_key) == expected


@pytest.mark.parametrize("names", [["٣", "2", "²", "1"], ["9" * 5000, "9" * 4999, "1"], ["", "a", "0"]])
def test_any_names_can_be_compared(names: list[str]) -> None:
    assert sorted(sorted(names, key=make_natural_key), key=make_natural_key) == sorted(names, key=make_natural_key)


ENTRIES = [
    Entry("b10", 5, 30.0, False), Entry("dir2", 0, 10.0, True), Entry("b9", 7, 20.0, False),
    Entry("Dir1", 0, 40.0, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("order_by", "direction", "extract", "names"),
    [
        ("", "", "", "b10 dir2 b9 Dir1"), ("name", "", "", "Dir1 b9 b10 dir2"),
        ("name", "desc", "", "dir2 b10 b9 Dir1"),
        ("size", "asc", "", "dir2 Dir1 b10 b9"), ("modified", "desc", "", "Dir1 b10 b9 dir2"),
        ("", "desc", "front", "dir2 Dir1 b10 b9"), ("", "", "back", "b10 b9 dir2 Dir1"),
        ("name", "desc", "front", "dir2 Dir1 b10 b9"), ("size", "desc", "back", "b9 b10 dir2 Dir1"),
    ],
)  # fmt: skip
def test_a_listing_is_sorted_as_its_storage_wants(order_by: str, direction: str, extract: str, names: str) -> None:
    wish = storage(order_by=order_by, order_direction=direction, extract_folder=extract)
    assert " ".join(sort(ENTRIES, wish)) == names


def test_a_size_that_is_not_known_sorts_as_none_at_all() -> None:
    entries = [Entry("b", 1, 0.0, False), Entry("a", None, 0.0, False)]
    assert sort(entries, storage(order_by="size")) == ["a", "b"]


def test_many_entries_are_sorted_as_few_are() -> None:
    entries = [
        Entry(f"n{random.randrange(9_000)}", random.randrange(3), 0.0, random.random() < 0.1) for _ in range(20_000)
    ]
    by_name = [entry.name for entry in sorted(entries, key=lambda entry: int(entry.name[1:]))]
    assert sort(entries, storage(order_by="name")) == by_name
    by_size = sorted(entries, key=lambda entry: entry.size or 0, reverse=True)
    expected = [entry.name for entry in sorted(by_size, key=lambda entry: not entry.is_dir)]
    assert sort(entries, storage(order_by="size", order_direction="desc", extract_folder="front")) == expected


@pytest.mark.parametrize("order_by", ["", "size"])
def test_entries_are_found_by_name_and_by_beginning(order_by: str) -> None:
    async def go() -> None:
        names = ["b", "film.srt", "film", "film.mkv", "filmed", "a", "\U0001f600", "\uffff"]
        folder = await make([Entry(name, len(name), 0.0, False) for name in names], order_by=order_by)
        for name in names:
            matching_entry = folder.find(name)
            assert matching_entry is not None
            assert matching_entry.name == name
        assert folder.find("fil") is None
        assert folder.find("z") is None
        assert [entry.name for entry in folder.find_by_prefix("film.")] == ["film.mkv", "film.srt"]
        assert list(folder.find_by_prefix("x")) == []
        assert len(folder.find_by_prefix("")) == len(names)

    asyncio.run(go())


def test_of_two_entries_of_one_name_the_last_one_is_found() -> None:
    async def go() -> None:
        folder = await make([Entry("a", 0, 0.0, True), Entry("a", 1, 0.0, False), Entry("b", 2, 0.0, False)])
        assert folder.find("a") == Entry("a", 1, 0.0, False)
        folder = await make([Entry("a", 0, 0.0, True), Entry("a", 1, 0.0, False)], extract_folder="back")
        assert folder.find("a") == Entry("a", 0, 0.0, True)

    asyncio.run(go())


def test_page_is_encoded_once_and_stream_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        calls = []

        def count(entries: Sequence[Entry]) -> bytes:
            calls.append(len(entries))
            return encode(entries)

        names = [f"{number:05}" for number in range(2 * ROWS_PER_CHUNK + 1)]
        folder = await make([Entry(name, 1, 0.0, False) for name in names])
        views = [View(folder.entries, count, folder.rows, "key") for _ in range(3)]
        expected = b"[" + ",".join(names).encode() + b"]"
        assert [await read_rows(view, 0, len(names)) for view in views] == [expected] * 3
        assert calls == [ROWS_PER_CHUNK, ROWS_PER_CHUNK, 1]
        weight = folder.weight
        monkeypatch.setattr(folders, "MAX_WHOLE_ROWS", 2 * ROWS_PER_CHUNK - 1)
        content = await views[0].get_content((1, len(names)))
        assert isinstance(content, PendingRows)
        assert b",".join([piece async for piece in content.pieces]) == expected[7:-1]
        assert calls[3:] == [ROWS_PER_CHUNK, ROWS_PER_CHUNK]
        assert folder.weight == weight

    asyncio.run(go())


def test_oldest_pages_are_dropped_when_they_weigh_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        calls = []

        def count(entries: Sequence[Entry]) -> bytes:
            calls.append(entries[0].name)
            return encode(entries)

        folder = await make([Entry(f"{number}", 1, 0.0, False) for number in range(100)])
        view = View(folder.entries, count, folder.rows)
        for number in range(100):
            assert await read_rows(view, number, number + 1) == f"[{number}]".encode()
            assert await read_rows(view, 0, 1) == b"[0]"
            assert folder.rows.weight <= 10_000
        assert calls == [f"{number}" for number in range(100)]
        await read_rows(view, 1, 2)
        assert calls[-1] == "1"

    monkeypatch.setattr(folders, "MAX_ROW_BYTES", 10_000)
    asyncio.run(go())


def test_callers_that_select_at_once_share_the_selection() -> None:
    async def go() -> None:
        folder = await make([Entry(f"{number}", 1, 0.0, False) for number in range(50_000)])
        seen = []

        def is_even(entry: Entry) -> bool:
            seen.append(entry.name)
            return int(entry.name) % 2 == 0

        selections = await asyncio.gather(*(folder.select_entries(SortOrder(), "key", is_even) for _ in range(5)))
        assert len(set(selections)) == 1
        assert len(seen) == 50_000
        assert len(selections[0]) == 25_000
        assert [entry.name for entry in selections[0][:2]] == ["0", "2"]

    asyncio.run(go())
