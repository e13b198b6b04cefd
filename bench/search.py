"""The index of names: how fast it is built, what it answers, and what that costs in memory and on the disk."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from pathlib import Path
from uuid import uuid4

from bench.environment import Environment
from bench.memory import Growth
from bench.raw import Connection
from bench.table import work
from mangrove.configuration.snapshot import Snapshot, SnapshotStore
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.drivers.base import DriverContext
from mangrove.drivers.local.driver import Local
from mangrove.search.database import Database, Statement
from mangrove.search.segments import Manifest, SegmentStore
from mangrove.search.writing import make_copy
from tests.service import Client

FOLDERS, FILES = 1100, 109  # on the disk: 121,000 names
NAMES = FOLDERS * (FILES + 1)
MILLION, TEN_MILLIONS = 1_000_000, 10_000_000
RARE, COMMON = "quagga", "zebra"  # in 10 names of all, and in every tenth
ROUNDS, LOOK_SECONDS, MOST_SECONDS = 30, 0.05, 300.0  # to look takes the service some milliseconds
PER_PAGE = 50
STORAGES = 50

_WORDS = """[
    'report', 'Invoice', 'holiday', 'Photo', 'scan', 'final', 'draft', 'Music', 'video', 'backup', 'archive', 'Letter',
    'contract', 'summer', 'Winter', 'project', 'meeting', 'notes', 'budget', 'Plan', 'garden', 'kitchen', 'travel',
    'Berlin', 'paris', 'london', 'family', 'school', 'Office', 'release', 'source', 'config', 'index', 'customer'
]"""
_NAMES = """
select folder, case when name <> lower(name) then name end as name, lower(name) as folded, false as is_dir,
    (hash(number, 4) % 50000000)::bigint as size,
    1.5e9 + (hash(number, 5) % 200000000000)::bigint // 1000 + (hash(number, 6) % 1024)::bigint / 1024.0 as modified
from (
    select range as number, (range // 100)::uinteger as folder,
        words[1 + (hash(range, 1) % len(words))::bigint] || ' ' || words[1 + (hash(range, 2) % len(words))::bigint]
        || case when range % 10 = 0 then ' zebra ' else ' ' end
        || case when range % (? // 10) = 7 then 'quagga ' else '' end || (hash(range, 3) % 1000000)::varchar
        || ['.txt', '.pdf', '.jpg', '.mp4'][1 + range % 4] as name
    from range(?), (select WORDS as words)
)
""".replace("WORDS", _WORDS)
_FOLDERS = """
select range::uinteger as id, '/archive/' || (range // 1000)::varchar || '/folder ' || range::varchar as path
from range(? // 100)
"""


def _mount(place: Environment, folder: Path) -> tuple[str, int]:
    """The mount path of a folder, and the id of its storage, whose first index is there."""
    folder.mkdir(exist_ok=True)
    path = f"/{uuid4().hex}"
    addition = json.dumps({"root_folder_path": str(folder), "show_hidden": True})
    made = place.client.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=addition)
    _wait_until_indexed(place)
    return path, int(made["id"])


def _wait_until_indexed(place: Environment) -> None:
    end = time.monotonic() + MOST_SECONDS
    client = place.client
    while not (progress := client.get("/api/admin/index/progress")["data"])["is_done"]:
        assert time.monotonic() < end, progress
        time.sleep(LOOK_SECONDS)
    assert not progress["error"], progress


def _build(place: Environment) -> dict[str, float]:
    """Names in a second of a whole build, and what memory grew by."""
    folder = place.folder / "names"
    if not folder.exists():
        for number in range(FOLDERS):
            (folder / f"Folder {number:04}").mkdir(parents=True)
            for file in range(FILES):
                (folder / f"Folder {number:04}" / f"Report {number * FILES + file:06} final.txt").touch()
        _mount(place, folder)
    place.restart()
    with Growth(place.service.process.pid) as growth:
        began = time.perf_counter()
        place.client.ok("/api/admin/index/build")
        _wait_until_indexed(place)
        seconds = time.perf_counter() - began
    found = place.client.get("/api/admin/index/progress")["data"]["obj_count"]
    assert found >= NAMES, found
    return {"build": NAMES / seconds, "build memory": growth.bytes / 1e6}


def _measure_build(place: Environment, name: str) -> float:
    if name not in place.kept:
        place.kept |= _build(place)
    return place.kept[name]


@work("index: build of 121,000 names, Local", "names/s", least=90_000, peer="17,900")
def build(place: Environment) -> float:
    return _measure_build(place, "build")


@work("index: growth of memory during that build", "MB", most=200)
def build_memory(place: Environment) -> float:
    return _measure_build(place, "build memory")


def _search(connection: Connection, parent: str, keywords: str) -> tuple[float, int]:
    """Seconds until the first page is there, and how many hits there are."""
    began = time.perf_counter()
    data = connection.post(
        "/api/fs/search", parent=parent, keywords=keywords, scope=0, page=1, per_page=PER_PAGE, password=""
    )
    return time.perf_counter() - began, int(data["total"])


def _measure_search(place: Environment, parent: str, keywords: str, hits: int, token: str = "") -> float:
    """Milliseconds of a first page, in the middle of many; `token`: of who asks, an administrator if there is none."""
    taken = []
    with Connection(place.service.address, token or place.token()) as connection:
        _search(connection, parent, keywords)
        for _ in range(ROUNDS):
            seconds, total = _search(connection, parent, keywords)
            assert total == hits, (total, hits)
            taken.append(seconds * 1000)
    return statistics.median(taken)


def _generate(place: Environment, count: int) -> str:
    """The mount path of a storage whose index has `count` names that no disk holds."""
    folder = place.folder / f"generated {count}"
    if not folder.exists():
        path, storage_id = _mount(place, folder)
        asyncio.run(_write_index(place.data / "index", storage_id, count))
        (folder.parent / f"{folder.name}.txt").write_text(f"{path} {storage_id}")
    return _read_note(folder)[0]


def _read_note(folder: Path) -> tuple[str, str]:
    path, storage_id = (folder.parent / f"{folder.name}.txt").read_text().split()
    return path, storage_id


async def _write_index(index: Path, storage_id: int, count: int) -> None:
    with runtime.use(runtime.Runtime()):
        database = Database(index)
        runtime.put(Database, database)
        snapshots = SnapshotStore()
        snapshots.snapshot = Snapshot(0, (), {}, Settings({}))
        runtime.put(SnapshotStore, snapshots)
        options = Local.Options(root_folder_path=str(index), show_hidden=True)
        store = SegmentStore(Local(options, DriverContext()), index, fetches=False)
        target = store.make_work_folder(storage_id)
        codec = "uncompressed" if count <= MILLION else "zstd"  # as the service does
        statements: list[Statement] = []
        for kind, rows, parameters in (("names", _NAMES, [count, count]), ("folders", _FOLDERS, [count])):
            (target / kind).mkdir()
            copy = make_copy(rows, codec, ", row_groups_per_file 34")
            statements.append((copy, [*parameters, str(target / kind)]))
        await database.write(statements)
        files: dict[str, list[str]] = {"names": [], "folders": []}
        for kind, names in files.items():
            for number, path in enumerate(sorted((target / kind).iterdir())):
                names.append(f"{kind}-{number}.parquet")
                await store.store(storage_id, path.rename(target / names[-1]))
        manifest = Manifest(**files, count=count, folder_count=count // 100, began=time.time(), finished="")
        await store.commit(storage_id, manifest)


@work("search: rare word, 1,000,000 names", "ms", most=30, peer="110 (121k)")
def rare_in_a_million(place: Environment) -> float:
    return _measure_search(place, _generate(place, MILLION), RARE, 10)


@work("search: word with 100,000 hits, page and total", "ms", most=100, peer="12,400")
def common_in_a_million(place: Environment) -> float:
    return _measure_search(place, _generate(place, MILLION), COMMON, MILLION // 10)


@work("search: the same word for who may not see some names", "ms")
def common_under_a_rule(place: Environment) -> float:
    parent, client, name = _generate(place, MILLION), place.client, uuid4().hex
    client.ok("/api/admin/user/create", username=name, password=name, base_path="/", role=0, permission=0)
    token = Client(place.service.address).ok("/api/auth/login", username=name, password=name)["token"]
    client.ok("/api/admin/meta/create", path=parent, hide=r"draft zebra 9\d*\.jpg$", h_sub=True)
    with Connection(place.service.address, token) as connection:
        hits = _search(connection, parent, COMMON)[1]
    assert 0 < hits < MILLION // 10
    return _measure_search(place, parent, COMMON, hits, token)


@work(f"search: rare word, {STORAGES} storages", "ms")
def rare_in_many_storages(place: Environment) -> float:
    for number in range(STORAGES):
        folder = place.folder / f"storage {number}"
        folder.mkdir()
        (folder / f"storage {number}.txt").touch()
        _mount(place, folder)
    return _measure_search(place, "/", f"storage {STORAGES - 1}.txt", 1)


@work("search: growth of memory by the first one", "MB", most=150)
def first_search_memory(place: Environment) -> float:
    parent = _generate(place, MILLION)
    place.restart()
    with place.connection() as connection, Growth(place.service.process.pid) as growth:
        _search(connection, parent, COMMON)
    return growth.bytes / 1e6


@work("search: the first one after a start, 1,000,000 names", "ms")
def first_search(place: Environment) -> float:
    parent = _generate(place, MILLION)
    place.restart()
    with place.connection() as connection:
        return _search(connection, parent, RARE)[0] * 1000


@work("search: requests until a new file is found", "", most=1, peer="browsing")
def new_file(place: Environment) -> float:
    name = f"{uuid4().hex}.txt"
    client = place.client
    assert client.put(f"/files/{name}", b"new")["code"] == 200
    with place.connection() as connection:
        for request in range(1, 1000):
            if _search(connection, "/", name)[1]:
                return request
    raise AssertionError("a new file is not found")


@work("search: rare word, 10,000,000 names", "ms", most=300)
def rare_in_ten_millions(place: Environment) -> float:
    return _measure_search(place, _generate(place, TEN_MILLIONS), RARE, 10)


@work("index: size on disk of 10,000,000 names", "MB", most=200)
def size_of_ten_millions(place: Environment) -> float:
    _generate(place, TEN_MILLIONS)
    _, storage_id = _read_note(place.folder / f"generated {TEN_MILLIONS}")
    files = (place.data / "index" / storage_id).rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6
