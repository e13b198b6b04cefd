"""The index of a storage as a whole: swapped, found damaged, dropped, in both homes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.problems import Problem
from mangrove.search.calls import DamagedSegment
from mangrove.search.segments import MANIFEST, SegmentStore
from tests import servers
from tests.unit.search.index_files import (
    commit,
    directory,
    file,
    make_local_store,
    make_s3_store,
    open_present,
    read_paths,
    use_index,
    write_names,
)  # fmt: skip

ROOT = Path(__file__).resolve().parents[3]
TREE = {"/": [directory("d"), file("f")], "/d": [file("g")]}
OTHER_TREE = {"/": [file("other")]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def store(folder: Path, records: None) -> Iterator[SegmentStore]:
    with use_index(folder) as made:
        yield made


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_index_is_there_when_it_is_committed(store: SegmentStore, folder: Path) -> None:
    async def work() -> None:
        assert await store.open(1) is None
        segments = await commit(store, TREE)
        assert await read_paths(segments) == ["/d", "/d/g", "/f"]
        assert await store.open(1) is segments  # nothing has changed
        assert await store.open(2) is None
        assert names_in(folder / "1") == sorted([MANIFEST, *segments.manifest.files])

    asyncio.run(work())


def test_a_swap_replaces_the_whole_and_removes_what_is_old_or_left(store: SegmentStore, folder: Path) -> None:
    async def work() -> None:
        old = await commit(store, TREE)
        dead = store.make_work_folder(1)
        (dead / "half").write_bytes(b"x")
        names, _ = await write_names(store.make_work_folder(1), "dead", OTHER_TREE)
        await store.store(1, names)
        new = await commit(store, OTHER_TREE)
        assert new != old
        assert await read_paths(new) == ["/other"]
        assert names_in(folder / "1") == sorted([MANIFEST, *new.manifest.files])

    asyncio.run(work())


def test_what_was_begun_can_be_discarded(store: SegmentStore, folder: Path) -> None:
    async def work() -> None:
        present = await commit(store, TREE)
        for storage_id in (1, 2):
            names, _ = await write_names(store.make_work_folder(storage_id), "dead", OTHER_TREE)
            await store.store(storage_id, names)
            assert await store.fetch(storage_id, names.name) == folder / str(storage_id) / names.name
            await store.discard(storage_id)
        assert names_in(folder / "1") == sorted([MANIFEST, *present.manifest.files])
        assert names_in(folder) == ["1"]

    asyncio.run(work())


def test_another_process_sees_the_swap(store: SegmentStore, folder: Path) -> None:
    async def work() -> None:
        other = make_local_store(folder)
        await commit(store, TREE)
        assert await read_paths(await open_present(other)) == ["/d", "/d/g", "/f"]
        await commit(store, OTHER_TREE)
        assert await read_paths(await open_present(other)) == ["/other"]

    asyncio.run(work())


def test_indexes_of_unknown_storages_are_dropped(store: SegmentStore, folder: Path) -> None:
    async def work() -> None:
        for storage_id in (1, 2, 30):
            await commit(store, TREE, storage_id)
        (folder / "not an index").mkdir()
        await store.drop_unknown({2, 4})
        assert names_in(folder) == ["2", "not an index"]
        assert await store.open(1) is None
        await store.drop(2)
        await store.drop(2)
        assert await store.open(2) is None

    asyncio.run(work())


MANIFESTS = {
    "empty": "", "no JSON": "{", "a list": "[]", "other": "{}", "no UTF-8": "\udcff",
    "of a newer version": json.dumps(
        {"version": 3, "names": [], "folders": [], "count": 0, "folder_count": 0, "began": 0, "finished": ""}
    ),
    "outside": json.dumps(
        {"names": ["../2/x.parquet"], "folders": [], "count": 0, "folder_count": 0, "began": 0, "finished": ""}
    ),
}  # fmt: skip


@pytest.mark.parametrize("content", MANIFESTS.values(), ids=MANIFESTS)
def test_a_damaged_manifest_is_dropped_with_one_line(
    store: SegmentStore, folder: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        await commit(store, TREE)
        (folder / "1" / MANIFEST).write_bytes(content.encode(errors="surrogateescape"))
        assert await store.open(1) is None
        assert await store.open(1) is None
        assert await read_paths(await commit(store, OTHER_TREE)) == ["/other"]

    asyncio.run(work())
    assert [record.message for record in caplog.records] == ["damaged search index dropped"]


def flip(path: Path) -> None:
    """Change one bit in the middle: read as it is, this is another name."""
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink, "empty": lambda path: path.write_bytes(b""), "one bit": flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}  # fmt: skip


@pytest.mark.parametrize("is_known", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_found_when_the_index_is_opened(
    store: SegmentStore,
    folder: Path,
    damage: Callable[[Path], object],
    is_known: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        segments = await commit(store, TREE)
        damage(segments.names[0])
        other = store if is_known else make_local_store(folder)
        assert await other.open(1) is None
        assert not (folder / "1").exists()

    asyncio.run(work())
    assert len(caplog.records) == 1
    assert caplog.records[0].facts["file"].endswith(".parquet")  # type: ignore[attr-defined]


def test_who_meets_damage_drops_what_he_met_and_nothing_newer(store: SegmentStore) -> None:
    async def work() -> None:
        old = await commit(store, TREE)
        new = await commit(store, OTHER_TREE)
        await store.drop_damaged(old, "names.parquet")
        assert await store.open(1) is new
        await store.drop_damaged(new, "names.parquet")
        assert await store.open(1) is None

    asyncio.run(work())


def test_a_file_that_was_never_stored_cannot_be_committed(store: SegmentStore) -> None:
    async def work() -> None:
        present = await commit(store, TREE)
        with pytest.raises(DamagedSegment):
            await store.commit(1, replace(present.manifest, names=["none.parquet"]))
        assert await store.open(1) is present

    asyncio.run(work())


KILLED = """
import asyncio, sys
from pathlib import Path
from typing import Any
from tests.unit.search import index_files as files
with files.use_index(Path(sys.argv[1])) as store:
    asyncio.run(files.commit(store, {"/": [files.file("other")]}))
    asyncio.run(store.drop(1))
"""


@pytest.mark.parametrize(
    ("place", "left"),
    [("index.stored", ["/d", "/d/g", "/f"]), ("index.committed", ["/other"]), ("index.dropped", None)],
)
def test_a_process_that_is_killed_leaves_a_whole_index(
    folder: Path, tmp_path: Path, place: str, left: list[str] | None
) -> None:
    async def look(store: SegmentStore) -> list[str] | None:
        segments = await store.open(1)
        return None if segments is None else await read_paths(segments)

    with use_index(folder) as store:
        asyncio.run(commit(store, TREE))
    orders = tmp_path / "orders"
    orders.write_text(place)
    environment = os.environ | {"MANGROVE_KILL_AT": str(orders), "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}"}
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=environment).returncode == -9
    with use_index(folder) as store:
        assert asyncio.run(look(store)) == left
        asyncio.run(commit(store, OTHER_TREE))
        assert len(names_in(folder / "1")) == 3


def test_files_are_fetched_once_from_a_bucket(s3: Callable[[], str], tmp_path: Path) -> None:
    endpoint = s3()
    options = servers.s3_options(endpoint, servers.make_bucket(endpoint))

    async def work() -> None:
        builder = await make_s3_store(options, tmp_path / "index" / "builder")
        reader = await make_s3_store(options, tmp_path / "index" / "reader")
        assert await reader.open(1) is None
        built = await commit(builder, TREE)
        segments = await open_present(reader)
        assert segments.names[0].parent == tmp_path / "index" / "reader" / "1"
        assert await read_paths(segments) == await read_paths(built) == ["/d", "/d/g", "/f"]
        assert await reader.open(1) is segments
        await commit(builder, OTHER_TREE)
        assert await read_paths(await open_present(reader)) == ["/other"]
        assert len(names_in(tmp_path / "index" / "reader" / "1")) == 2
        assert len(names_in(tmp_path / "index" / "builder" / "1")) == 2

    with use_index(tmp_path / "index"):
        asyncio.run(work())


def test_an_index_in_a_bucket_is_dropped_or_found_damaged(s3: Callable[[], str], tmp_path: Path) -> None:
    endpoint = s3()
    bucket = servers.make_bucket(endpoint)
    client = servers.make_client("s3", endpoint)

    async def work() -> None:
        store = await make_s3_store(servers.s3_options(endpoint, bucket), tmp_path / "index" / "here")
        for damaged in ("names", "folders"):
            built = await commit(store, TREE)
            (name,) = getattr(built.manifest, damaged)
            client.delete_object(Bucket=bucket, Key=f"1/{name}")
            (tmp_path / "index" / "here" / "1" / name).unlink()
            assert await store.open(1) is None
            assert "Contents" not in client.list_objects_v2(Bucket=bucket)
        await commit(store, TREE, 5)
        await store.drop_unknown([])
        assert "Contents" not in client.list_objects_v2(Bucket=bucket)

    with use_index(tmp_path / "index"):
        asyncio.run(work())


@pytest.mark.parametrize("durability", ["file", "none"])
def test_what_is_stored_is_flushed_where_the_setting_wants_it(folder: Path, durability: str) -> None:
    async def work(store: SegmentStore) -> None:
        await commit(store, TREE)

    with use_index(folder, durability=durability) as store:
        asyncio.run(work(store))


def test_without_a_folder_and_a_bucket_there_is_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_DATA", raising=False)
    monkeypatch.delenv("MANGROVE_INDEX_BUCKET", raising=False)
    with runtime.use(runtime.Runtime()), pytest.raises(Problem, match="no place for index"):
        asyncio.run(SegmentStore().open(1))
