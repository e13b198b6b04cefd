"""Orders that a request asks for: what is kept of them, and mount folders in their places."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from itertools import chain

import pytest

from mangrove.core.chunked import CHUNK_ITEMS
from mangrove.drivers.base import Entry
from mangrove.tree.listing.columns import make_columns
from mangrove.tree.listing.folder import MAX_SELECTIONS, CachedFolder, Stamp, make_folder
from mangrove.tree.listing.orders import (
    MAX_NUMBER_DIGITS,
    SortOrder,
    cut_page,
    find_folder_position,
    merge_page,
    sort_entries,
    sort_in_runs,
)
from tests.unit.tree.builders import mount

ENTRIES = [
    Entry("b10", 5, 30.0, False), Entry("dir2", 0, 10.0, True), Entry("b9", 7, 20.0, False),
    Entry("Dir1", 0, 40.0, True),
]  # fmt: skip


def list_names(entries: Sequence[Entry]) -> list[str]:
    return [entry.name for entry in entries]


async def make(entries: Sequence[Entry], **fields: str) -> CachedFolder:
    return await make_folder(await make_columns(entries), mount(**fields), None, 1.0, Stamp((1, "/")))


def test_a_folder_is_shown_in_another_order_and_found_in_its_own() -> None:
    async def go() -> None:
        folder = await make(ENTRIES, order_by="name")
        by_size = await folder.select_entries(SortOrder("size", True, "front"), "all", None)
        own = await folder.select_entries(SortOrder("name"), "all", None)
        filtered = await folder.select_entries(SortOrder("modified"), "files", lambda entry: not entry.is_dir)
        assert list_names(by_size) == ["dir2", "Dir1", "b9", "b10"]
        assert list_names(own) == ["Dir1", "b9", "b10", "dir2"]
        assert list_names(filtered) == ["b9", "b10"]
        assert by_size is await folder.select_entries(SortOrder("size", True, "front"), "others", None)
        assert filtered is await folder.select_entries(SortOrder("modified"), "files", lambda entry: entry.is_dir)
        assert own is folder.entries

    asyncio.run(go())


def test_latest_orders_are_cached_with_their_weight() -> None:
    async def go() -> None:
        folder = await make([Entry(f"{number}", number, 0.0, False) for number in range(10_000)])
        before = folder.weight
        orders = [
            SortOrder(by, descending, folders)
            for by in ("name", "size", "modified")
            for descending in (False, True)
            for folders in ("front", "back")
        ]
        selections = [await folder.select_entries(order, "", None) for order in orders]
        assert 40_000 * MAX_SELECTIONS < folder.weight - before < 45_000 * MAX_SELECTIONS
        assert await folder.select_entries(orders[-1], "", None) is selections[-1]
        assert await folder.select_entries(orders[0], "", None) is not selections[0]

    asyncio.run(go())


@pytest.mark.parametrize("folders", ["front", "back", ""])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("by", ["name", "size", "modified"])
def test_one_more_folder_has_the_place_that_sorting_gives_it(by: str, descending: bool, folders: str) -> None:
    order = SortOrder(by, descending, folders)
    for folder in (Entry("a", 0, 25.0, True), Entry("c3", 0, 10.0, True), Entry("z", 0, 99.0, True)):
        entries = asyncio.run(sort_entries(ENTRIES, order))
        expected = asyncio.run(sort_entries([*ENTRIES, folder], order))
        assert find_folder_position(entries, order, folder) == list(expected).index(folder), folder


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (SortOrder("name", folders="front"), ["Dir1", "dir2", "b9", "b10", "z", "a"]),
        (SortOrder("name", folders="front", is_requested=True), ["a", "Dir1", "dir2", "z", "b9", "b10"]),
        (SortOrder("name", True, "back", is_requested=True), ["b10", "b9", "z", "dir2", "Dir1", "a"]),
    ],
)
def test_other_folders_are_merged_in_a_requested_order(order: SortOrder, expected: list[str]) -> None:
    async def merge() -> list[str]:
        entries, folders = await sort_entries(ENTRIES, order), [Entry("z", 0, 0.0, True), Entry("a", 0, 0.0, True)]
        pieces = await merge_page(entries, order, folders, 0, 6)
        rows = [[piece] if isinstance(piece, Entry) else entries[slice(*piece)] for piece in pieces]
        return list_names(list(chain.from_iterable(rows)))

    assert asyncio.run(merge()) == expected


@pytest.mark.parametrize("positions", [[], [0], [3], [0, 0, 2], [1, 3, 3]])
@pytest.mark.parametrize("count", [0, 3])
def test_pages_of_merged_rows_are_slices_of_the_whole(positions: list[int], count: int) -> None:
    positions = [min(position, count) for position in positions]
    folders = [Entry(f"folder {number}", 0, 0.0, True) for number in range(len(positions))]
    whole: list[str] = []
    for row in range(count + 1):
        whole += [folder.name for folder, position in zip(folders, positions, strict=True) if position == row]
        whole += [f"row {row}"] * (row < count)
    for start in range(len(whole) + 1):
        for stop in range(start, len(whole) + 1):
            pieces: list[str] = []
            for piece in cut_page(start, stop, positions, folders):
                pieces += [piece.name] if isinstance(piece, Entry) else [f"row {row}" for row in range(*piece)]
            assert pieces == whole[start:stop], (start, stop)


@pytest.mark.parametrize("is_requested", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ["a10.txt", "a2.txt", "IMG_007.JPG", "7", "00", ""],
        ["über 2", "a1"],
        ["a" + "1" * 47, "b1"],  # whose length, as a letter, is the separator
        ["a" + "1" * MAX_NUMBER_DIGITS, "b1"],
        ["a/b1", "c"],
        [],
    ],
)
def test_keys_of_many_names_are_those_of_each(names: list[str], is_requested: bool) -> None:
    order = SortOrder("name", is_requested=is_requested)
    assert order.make_name_keys(names) == [order.make_name_key(name) for name in names]


def choose_numbers(count: int, values: int) -> list[int]:
    chance = random.Random(count)
    return [chance.randrange(values) for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, CHUNK_ITEMS, CHUNK_ITEMS + 1, 10 * CHUNK_ITEMS])
@pytest.mark.parametrize("values", [1, 2, 100, 1 << 40])
@pytest.mark.parametrize("key", [lambda number: number, lambda number: -number, lambda number: number // 10])
def test_sorting_in_runs_is_sorting(count: int, values: int, key: Callable[[int], int]) -> None:
    numbers = choose_numbers(count, values)
    assert list(chain.from_iterable(sort_in_runs(numbers, key))) == sorted(numbers, key=key)


def test_no_part_of_a_sort_is_long() -> None:
    parts = list(sort_in_runs(choose_numbers(30 * CHUNK_ITEMS, 1 << 40), lambda number: number))
    assert max(map(len, parts)) < 4 * CHUNK_ITEMS


def test_equal_things_keep_their_order_while_they_are_sorted() -> None:
    numbers = choose_numbers(5 * CHUNK_ITEMS, 7)
    order = list(chain.from_iterable(sort_in_runs(range(len(numbers)), numbers.__getitem__)))
    assert order == sorted(range(len(numbers)), key=numbers.__getitem__)
