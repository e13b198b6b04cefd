"""Rows on their way into the index and back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.drivers.base import Entry
from mangrove.search.folding import find_known_folders
from mangrove.search.names import decode_name, encode_name
from mangrove.search.segments import SegmentStore
from mangrove.search.words import fold
from mangrove.search.writing import MAX_LINE_BYTES, SegmentWriter, finish, make_columns
from tests.unit.search.index_files import commit, directory, file, read_rows, use_index

NAMES = [
    "plain.txt", "Upper.TXT", "straße ﬁle ＡＢＣ.txt", "e\u0301", "İstanbul", "中文", "👩‍👩‍👧‍👦", "\U0010ffff",
    "no utf-8 \udcff\udc80", "\ud83d alone", "a\nb", "a\rb\tc", "nul \0 here", "mark \x1a and \x1a001a", "\x1a",
    "it's \"quoted\" \\ ; --", "x" * 255, "\U0001f600" * 63, "é" * 127, " ", "ends in space ", "%_*?[]{}", "null",
    "\u2028\u2029\x85\x0b\x0c", "\udcc3\udca9", "", "ΑΣ", "ς",
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    with use_index(tmp_path / "index") as made:
        yield made


def test_every_name_comes_back_as_it_was(store: SegmentStore) -> None:
    entries = [file(name, size, size + 0.5) for size, name in enumerate(NAMES)]
    rows = asyncio.run(commit_and_read(store, {"/": entries}))
    assert rows == sorted(("/", entry.name, False, entry.size, entry.modified) for entry in entries)


async def commit_and_read(store: SegmentStore, tree: dict[str, list[Entry]]) -> list[tuple[object, ...]]:
    return list(await read_rows(await commit(store, tree)))


def test_folders_sizes_and_times_come_back(store: SegmentStore) -> None:
    tree = {
        "/": [directory("d"), file("none", None), file("large", (1 << 63) - 1), file("old", 0, -2208988800.0)],
        "/d": [],
        "/d/mark \x1a": [file("f", 0, 1_700_000_000.25)],
    }
    assert asyncio.run(commit_and_read(store, tree)) == [
        ("/", "d", True, 0, 1.5),
        ("/", "large", False, (1 << 63) - 1, 1.5),
        ("/", "none", False, None, 1.5),
        ("/", "old", False, 0, -2208988800.0),
        ("/d/mark \x1a", "f", False, 0, 1_700_000_000.25),
    ]


def test_what_a_storage_cannot_mean_does_not_stop_the_rest(store: SegmentStore) -> None:
    entries = [file("big", 1 << 63), file("negative", -1), file("nan", 1, float("nan")), file("inf", 1, float("inf"))]
    rows = asyncio.run(commit_and_read(store, {"/": [*entries, file("good", 7, 2.5)]}))
    assert [row[1:] for row in rows] == [
        ("big", False, None, 1.5),
        ("good", False, 7, 2.5),
        ("inf", False, 1, 0.0),
        ("nan", False, 1, 0.0),
        ("negative", False, None, 1.5),
    ]


def test_names_are_folded_in_one_go_as_each_alone() -> None:
    random.seed(12)
    letters = "aB \n\u0301\u0327\u3099か゛ﾊﾟ\uac00\u11a8\u1100ﬁ①İß" + "\udc80"
    for _ in range(300):
        names = ["".join(random.choices(letters, k=random.randrange(6))) for _ in range(5)]
        folded = make_columns([file(name) for name in names]).folded
        assert folded == [fold(name).replace("\udc80", "\\udc80") for name in names], names


def test_only_a_name_that_is_its_own_folded_form_is_left_out() -> None:
    rows = make_columns([file("plain"), file("Upper"), file("a\x1a"), file("\udc80")])
    assert rows.names == [None, "Upper", "a\x1a001a", "\x1adc80"]
    assert rows.folded == ["plain", "upper", "a\\x1a", "\\udc80"]


def test_any_text_can_be_encoded_and_decoded() -> None:
    random.seed(12)
    for _ in range(2000):
        name = "".join(random.choices("\x1a\0\ud800\udfff0a1fA\U0001f600\\", k=random.randrange(9)))
        stored = encode_name(name)
        assert decode_name(stored) == name
        stored.encode()


def test_names_of_any_length_are_written(store: SegmentStore) -> None:
    """A line of the text under way has a bound, also where every byte of a name needs six."""
    entries = [file(f"{number}" + "\x01" * 3000, number) for number in range(700)]
    assert len(asyncio.run(commit_and_read(store, {"/": entries}))) == len(entries)
    assert 4 * MAX_LINE_BYTES < 700 * 3000 * 6


def test_an_empty_storage_has_an_index(store: SegmentStore) -> None:
    assert asyncio.run(commit_and_read(store, {"/": []})) == []
    assert asyncio.run(commit_and_read(store, {})) == []


def test_nothing_is_left_of_what_is_not_finished(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, "n")
    writer.add(0, [file("a")])
    writer.close()
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_known_folders_are_found(store: SegmentStore) -> None:
    async def work() -> None:
        segments = await commit(store, {"/": [], "/a": [], "/a/mark \x1a": [], "/'; drop": []})
        paths = ["/", "/a/mark \x1a", "/'; drop", "/none", "/A"]
        assert await find_known_folders(segments, paths) == {"/", "/a/mark \x1a", "/'; drop"}
        assert await find_known_folders(segments, []) == set()

    asyncio.run(work())


def test_rows_are_made_fast_enough_for_a_storage_of_any_size(store: SegmentStore) -> None:
    """200,000 a second and more on a quiet machine, with what it takes to write them; counted in time of the CPU."""
    entries = [file(f"Report {number:06} final.txt", number, 1.6e9 + number / 7) for number in range(1000)]

    async def work() -> float:
        writer = SegmentWriter(store.make_work_folder(1), "n")
        began = time.process_time()
        for folder in range(100):
            writer.add(folder, entries)
        await finish(writer)
        return 100_000 / (time.process_time() - began)

    assert asyncio.run(work()) > 100_000
