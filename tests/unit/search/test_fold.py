"""A walk laid over the index that was there, compared with the tree itself."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from mangrove.drivers.base import Entry
from mangrove.search import folding, writing
from mangrove.search.calls import DamagedSegment
from mangrove.search.folding import Folded, Fresh, fold_changes
from mangrove.search.segments import Segments, SegmentStore
from tests.unit.search.index_files import (
    commit,
    directory,
    file,
    make_manifest,
    open_present,
    read_paths,
    read_rows,
    use_index,
)  # fmt: skip

Tree = Mapping[str, Sequence[Entry]]


@pytest.fixture
def store(tmp_path: Path, records: None) -> Iterator[SegmentStore]:
    with use_index(tmp_path / "it's [index]*") as made:
        yield made


async def update(
    store: SegmentStore, base: Segments | None, tree: Tree, kept_paths: Collection[str] | None = None, files: int = 1
) -> Segments:
    """Lay what was read over the index, and make that the present one."""
    work = store.make_work_folder(1)
    folded = await fold(base, work, tree, kept_paths, files)
    for path in folded.fresh:
        await store.store(1, path)
    await store.commit(1, make_manifest(folded))
    return await open_present(store)


async def fold(
    base: Segments | None, work: Path, tree: Tree, kept_paths: Collection[str] | None = None, files: int = 1
) -> Folded:
    names, folders = writing.SegmentWriter, writing.FolderWriter
    writers = [(names(work, f"n{n}"), folders(work, f"f{n}")) for n in range(files)]
    for number, (path, entries) in enumerate(tree.items()):
        writers[number % files][0].add(number, entries)
        writers[number % files][1].add([(number, path)])
    chunks = await writing.finish(*(path_below for path_below, _ in writers))
    walked = await writing.finish(*(path_below for _, path_below in writers))
    fresh = Fresh(walked, chunks, sum(map(len, tree.values())), len(tree))
    folded = await fold_changes(base, work, work.name, fresh, kept_paths)
    new = {path.name for path in (*walked, *chunks)} & {*folded.names, *folded.folders}  # files that stay as they are
    return Folded(
        (*folded.fresh, *(path for path in (*walked, *chunks) if path.name in new)),
        folded.names, folded.folders, folded.count, folded.folder_count,
    )  # fmt: skip


def test_a_folder_that_was_read_replaces_its_old_rows(store: SegmentStore) -> None:
    async def work() -> None:
        base = await commit(store, {"/": [directory("a"), file("old")], "/a": [file("x")], "/b": [file("y")]})
        present = await update(store, base, {"/a": [file("x2", 7), directory("sub")], "/a/sub": [file("deep")]})
        assert await read_paths(present) == ["/a", "/a/sub", "/a/sub/deep", "/a/x2", "/b/y", "/old"]
        assert (present.manifest.count, present.manifest.folder_count) == (6, 4)

    asyncio.run(work())


def test_what_lies_below_a_folder_that_is_gone_goes(store: SegmentStore) -> None:
    async def work() -> None:
        tree = {
            "/": [directory("a"), directory("ab"), directory("B"), directory("mark \x1a")],
            "/a": [directory("b")], "/a/b": [directory("c")], "/a/b/c": [file("deep")],
            "/ab": [file("stays")], "/B": [file("upper")], "/mark \x1a": [file("marked")],
        }  # fmt: skip
        base = await commit(store, tree)
        new = {"/": [file("a"), directory("ab"), directory("B"), directory("mark \x1a")]}
        present = await update(store, base, new)
        assert await read_paths(present) == [
            "/B",
            "/B/upper",
            "/a",
            "/ab",
            "/ab/stays",
            "/mark \x1a",
            "/mark \x1a/marked",
        ]
        assert present.manifest.folder_count == 4

    asyncio.run(work())


def test_a_folder_whose_parents_the_index_does_not_know_goes_with_them(store: SegmentStore) -> None:
    async def work() -> None:
        base = await commit(store, {"/": [], "/a/b/c": [file("deep")]})
        present = await update(store, base, {"/": [file("f")]})
        assert await read_paths(present) == ["/f"]
        assert present.manifest.folder_count == 1

    asyncio.run(work())


def test_a_folder_that_was_removed_and_read_as_empty_leaves_nothing_below(store: SegmentStore) -> None:
    async def work() -> None:
        base = await commit(store, {"/": [directory("a")], "/a": [directory("b")], "/a/b": [file("f")]})
        assert await read_paths(await update(store, base, {"/a": []})) == ["/a"]

    asyncio.run(work())


def test_a_rebuild_keeps_what_could_not_be_read(store: SegmentStore) -> None:
    async def work() -> None:
        tree = {
            "/": [directory("a"), directory("ab"), file("old")], "/a": [directory("b"), file("f")],
            "/a/b": [file("deep")], "/ab": [file("g")],
        }  # fmt: skip
        base = await commit(store, tree)
        present = await update(
            store, base, {"/": [directory("a"), directory("ab")], "/ab": [file("new")]}, kept_paths=["/a"]
        )
        assert await read_paths(present) == ["/a", "/a/b", "/a/b/deep", "/a/f", "/ab", "/ab/new"]
        present = await update(store, present, {"/": [directory("ab")]}, kept_paths=[])
        assert await read_paths(present) == ["/ab"]

    asyncio.run(work())


def test_the_first_index_is_what_was_read(store: SegmentStore) -> None:
    tree = {"/": [directory(f"d{number}") for number in range(30)]}
    tree |= {f"/d{number}": [file("f", number)] for number in range(30)}

    async def work(files: int) -> list[str]:
        return await read_paths(await update(store, None, tree, kept_paths=[], files=files))

    assert asyncio.run(work(2)) == asyncio.run(work(folding.MAX_SMALL_FILES + 3))


def test_many_small_files_are_joined(store: SegmentStore) -> None:
    async def work() -> None:
        present = await commit(store, {"/": [directory("d")], "/d": []})
        for number in range(folding.MAX_SMALL_FILES + 2):
            present = await update(store, present, {f"/d/{number}": [file("f")]})
            assert len(present.names) <= folding.MAX_SMALL_FILES + 1
        assert len(await read_paths(present)) == folding.MAX_SMALL_FILES + 3

    asyncio.run(work())


@pytest.mark.parametrize("seed", range(2))
def test_any_sequence_of_updates_ends_as_the_tree_is(store: SegmentStore, seed: int) -> None:
    chance = random.Random(seed)

    async def work() -> None:
        tree: dict[str, list[Entry]] = {"/": []}
        for _ in range(40):
            change(chance, tree)
        present = await commit(store, tree)
        for _ in range(4):
            touched: set[str] = set()
            for _ in range(12):
                touched |= change(chance, tree)
            present = await update(store, present, {path: tree[path] for path in sorted(touched) if path in tree})
            assert [row[:2] for row in await read_rows(present)] == sorted(
                (path, entry.name) for path, entries in tree.items() for entry in entries
            )
            assert present.manifest.folder_count == len(tree)

    asyncio.run(work())


def change(chance: random.Random, tree: dict[str, list[Entry]]) -> set[str]:
    """Add or remove something; the folders that have to be read because of it."""
    parent = chance.choice(sorted(tree))
    name = chance.choice(["a", "B", "ab", "ß", "x y", "\x1a"])
    path = f"{parent.rstrip('/')}/{name}"
    if any(entry.name == name for entry in tree[parent]):
        tree[parent] = [entry for entry in tree[parent] if entry.name != name]
        for path_below in [
            path_below for path_below in tree if path_below == path or path_below.startswith(f"{path}/")
        ]:
            del tree[path_below]
        return {parent}
    is_dir = chance.random() < 0.6 and path.count("/") < 6
    tree[parent] = [*tree[parent], directory(name) if is_dir else file(name)]
    if is_dir:
        tree[path] = []
    return {parent, path} if is_dir else {parent}


def test_a_damaged_base_is_named(store: SegmentStore) -> None:
    async def work() -> None:
        base = await commit(store, {"/": [file("f")]})
        base.names[0].write_bytes(b"")
        with pytest.raises(DamagedSegment) as caught:
            await update(store, base, {"/": []})
        assert caught.value.data == base.names[0].name

    asyncio.run(work())


@pytest.mark.long
def test_a_million_rows_are_folded_within_seconds(store: SegmentStore) -> None:
    """Two hundred of ten thousand folders changed; seconds of the CPU, as others work beside it."""

    async def work() -> None:
        entries = [file(f"Report {number:06} final.txt", number, 1.6e9 + number / 7) for number in range(100)]
        base = await commit(store, {"/": [], **{f"/d{number}": entries for number in range(10_000)}})
        began = time.process_time()
        present = await update(store, base, {f"/d{number}": entries[:50] for number in range(0, 10_000, 50)})
        assert time.process_time() - began < 5
        assert present.manifest.count == 1_000_000 - 200 * 50

    asyncio.run(work())
