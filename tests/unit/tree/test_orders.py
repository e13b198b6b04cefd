"""Orders that a request asks for: what is kept of them, and mount folders in their places."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mangrove.drivers.base import Entry
from mangrove.tree.listing.columns import make_columns
from mangrove.tree.listing.folder import MAX_OTHER_ORDERS, CachedFolder, Stamp, make_folder
from mangrove.tree.listing.orders import MAX_NUMBER_DIGITS, SortOrder, cut_page, find_folder_position, sort_entries
from tests.unit.tree.builders import mount

ENTRIES = [
    Entry("b10", 5, 30.0, False), Entry("dir2", 0, 10.0, True), Entry("b9", 7, 20.0, False),
    Entry("Dir1", 0, 40.0, True),
]  # fmt: skip


def encode(entries: Sequence[Entry]) -> bytes:
    return b",".join(entry.name.encode() for entry in entries)


async def make(entries: Sequence[Entry], **fields: str) -> CachedFolder:
    return await make_folder(await make_columns(entries), mount(**fields), None, 1.0, Stamp((1, "/")))


def test_a_folder_is_shown_in_another_order_and_found_in_its_own() -> None:
    async def go() -> None:
        folder = await make(ENTRIES, order_by="name")
        shown = await folder.get_view("key", None, encode, SortOrder("size", True, "front"))
        own = await folder.get_view("key", None, encode, SortOrder("name"))
        filtered = await folder.get_view("few", lambda entry: not entry.is_dir, encode, SortOrder("modified"))
        assert await shown.get_rows(0, 4) == b"dir2,Dir1,b9,b10"
        assert await own.get_rows(0, 4) == b"Dir1,b9,b10,dir2"
        assert await filtered.get_rows(0, 2) == b"b9,b10"
        assert shown is await folder.get_view("key", None, encode, SortOrder("size", True, "front"))
        assert own is await folder.get_view("key", None, encode, SortOrder("name"))

    asyncio.run(go())


def test_few_orders_are_kept_and_what_they_weigh_is_known() -> None:
    async def go() -> None:
        folder = await make([Entry(f"{number}", number, 0.0, False) for number in range(10_000)])
        before = folder.weight
        orders = [SortOrder(by, descending) for by in ("name", "size", "modified") for descending in (False, True)]
        views = [await folder.get_view("key", None, encode, order) for order in orders]
        assert 40_000 * MAX_OTHER_ORDERS < folder.weight - before < 45_000 * MAX_OTHER_ORDERS
        assert await folder.get_view("key", None, encode, orders[-1]) is views[-1]
        assert await folder.get_view("key", None, encode, orders[0]) is not views[0]

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


@pytest.mark.parametrize("places", [[], [0], [3], [0, 0, 2], [1, 3, 3]])
@pytest.mark.parametrize("count", [0, 3])
def test_pages_of_merged_rows_are_slices_of_the_whole(places: list[int], count: int) -> None:
    places = [min(place, count) for place in places]
    whole: list[str] = []
    for row in range(count + 1):
        whole += [f"other {number}" for number, place in enumerate(places) if place == row]
        whole += [f"row {row}"] * (row < count)
    for start in range(len(whole) + 1):
        for stop in range(start, len(whole) + 1):
            pieces: list[str] = []
            for piece in cut_page(start, stop, places):
                pieces += [f"other {piece}"] if isinstance(piece, int) else [f"row {row}" for row in range(*piece)]
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
