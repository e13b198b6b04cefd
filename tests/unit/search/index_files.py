"""An index in a folder of its own, written and read by the real parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mangrove.configuration.snapshot import Snapshot, SnapshotStore
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.drivers.base import Driver, DriverContext, Entry
from mangrove.drivers.local.driver import Local
from mangrove.drivers.s3.driver import S3
from mangrove.search.database import Database
from mangrove.search.folding import Folded
from mangrove.search.index import SearchIndex, search_index
from mangrove.search.names import decode_name
from mangrove.search.segments import IndexManifest, Segments, SegmentStore
from mangrove.search.writing import FolderWriter, SegmentWriter, finish

Row = tuple[str, str, bool, int | None, float]  # path of the folder, name, is_dir, size, modified


def file(name: str, size: int | None = 1, modified: float = 1.5) -> Entry:
    return Entry(name, size, modified, False)


def directory(name: str) -> Entry:
    return Entry(name, 0, 1.5, True)


@contextmanager
def use_index(folder: Path, **settings: str) -> Iterator[SegmentStore]:
    """A store and a database in a folder, as slots; closed at the end."""
    folder.mkdir(exist_ok=True)
    store = make_local_store(folder)
    made = Database(folder)
    runtime.put(SegmentStore, store)
    runtime.put(SearchIndex, SearchIndex(made))
    snapshots = SnapshotStore()
    snapshots.snapshot = Snapshot(0, (), {}, Settings(settings))
    runtime.put(SnapshotStore, snapshots)
    try:
        yield store
    finally:
        made.close()


def make_local_store(folder: Path) -> SegmentStore:
    return SegmentStore(
        Local(Local.Options(root_folder_path=str(folder), show_hidden=True), DriverContext()), folder, fetches=False
    )


async def make_s3_store(options: Mapping[str, Any], folder: Path) -> SegmentStore:
    driver: Driver = S3(S3.Options.parse(json.dumps(dict(options))), DriverContext())
    await driver.start()
    return SegmentStore(driver, folder, fetches=True)


def make_manifest(folded: Folded, began: float = 1.0) -> IndexManifest:
    return IndexManifest(
        names=folded.names, folders=folded.folders, count=folded.count, folder_count=folded.folder_count,
        began=began, finished=datetime.now(UTC).isoformat(),
    )  # fmt: skip


async def write_names(folder: Path, name: str, tree: Mapping[str, Sequence[Entry]]) -> tuple[Path, Path]:
    """A file of names and one of folders, whose ids count from 0."""
    names, folders = SegmentWriter(folder, f"names-{name}"), FolderWriter(folder, f"folders-{name}")
    for number, entries in enumerate(tree.values()):
        names.add(number, entries)
    folders.add(enumerate(tree))
    made = await finish(names, folders)
    return made[0], made[1]


async def commit(store: SegmentStore, tree: Mapping[str, Sequence[Entry]], storage_id: int = 1) -> Segments:
    """The index of a tree, made the present one."""
    work = store.make_work_folder(storage_id)
    names, folders = await write_names(work, work.name, tree)
    for path in (names, folders):
        await store.store(storage_id, path)
    counts = sum(map(len, tree.values())), len(tree)
    folded = Folded((), [names.name], [folders.name], *counts)
    await store.commit(storage_id, make_manifest(folded))
    return await open_present(store, storage_id)


async def open_present(store: SegmentStore, storage_id: int = 1) -> Segments:
    segments = await store.open(storage_id)
    assert segments is not None
    return segments


async def read_rows(segments: Segments) -> list[Row]:
    """All rows, sorted; every row has its folder."""
    rows = await search_index().database.run(
        "select path, coalesce(name, names.folded), is_dir, size, modified from read_parquet(?) as names"
        " left join read_parquet(?) as folders on folder = id",
        [list(map(str, segments.names)), list(map(str, segments.folders))],
        seconds=30,
    )
    assert len(rows) == segments.manifest.count
    return sorted((decode_name(path), decode_name(name), *more) for path, name, *more in rows)  # type: ignore[arg-type]


async def read_paths(segments: Segments) -> list[str]:
    """The whole paths of all names, sorted."""
    return sorted(f"{folder.rstrip('/')}/{name}" for folder, name, *_ in await read_rows(segments))


def run_in(folder: Path, work: Any, **settings: str) -> Any:
    """Return the result of the coroutine function `work`, called with a store in a folder."""
    with use_index(folder, **settings) as store:
        return asyncio.run(work(store))
