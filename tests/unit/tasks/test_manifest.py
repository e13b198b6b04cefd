"""Manifests: appended to over chunk borders, continued, read from any folder, never held as a whole."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mangrove.core import runtime
from mangrove.drivers.base import DriverContext
from mangrove.drivers.local.driver import Local
from mangrove.tasks.core import staging
from mangrove.tasks.core.staging import ManifestEntry, StagedList, Staging

CHUNK = 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that staging is in."""
    driver = Local(Local.Options(root_folder_path=str(tmp_path)), DriverContext())
    monkeypatch.setenv("MANGROVE_DATA", str(tmp_path))
    with runtime.use(runtime.Runtime()):
        runtime.put(Staging, Staging(driver))
        yield tmp_path


def open_list(task_id: str, name: str, count: int) -> StagedList[ManifestEntry]:
    return StagedList(task_id, name, count, ManifestEntry._make)


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Chunks of ten rows; the id of a task."""
    monkeypatch.setattr(staging, "ROWS_PER_FILE", CHUNK)
    return uuid4().hex


async def fill(made: StagedList[ManifestEntry], start: int, stop: int) -> None:
    for number in range(start, stop):
        await made.append(ManifestEntry(f"näme\n{number}", number, 1.5, False, ""))
    await made.flush()


async def numbers(made: StagedList[ManifestEntry], start: int = 0) -> list[int]:
    """The numbers of all rows from `start`, read chunk by chunk."""
    sizes: list[int] = []
    while rows := await made.read_rows(start + len(sizes)):
        sizes += [row.size or 0 for row in rows]
    return sizes


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 19, 20, 21, 35])
def test_rows_come_back_from_any_place_also_over_chunk_borders(small: str, count: int) -> None:
    async def work() -> None:
        made = open_list(small, "rows", 0)
        await fill(made, 0, count)
        assert made.count == count
        for rows_list in (made, open_list(small, "rows", count)):
            for start in range(count + 2):
                assert await numbers(rows_list, start) == list(range(start, count))
        if count:
            last = ManifestEntry(f"näme\n{count - 1}", count - 1, 1.5, False, "")
            assert (await made.read_rows(count - 1))[-1] == last

    asyncio.run(work())


@pytest.mark.parametrize("first", [1, 9, 10, 11, 20])
def test_another_worker_goes_on_where_the_last_chunk_ends(small: str, first: int) -> None:
    async def work() -> None:
        await fill(open_list(small, "rows", 0), 0, first)
        later = open_list(small, "rows", first)
        await fill(later, first, first + 13)
        assert later.count == first + 13
        assert await numbers(open_list(small, "rows", first + 13)) == list(range(first + 13))

    asyncio.run(work())


@pytest.mark.parametrize(("counted", "stored"), [(3, 7), (0, 5), (9, 25), (10, 25), (12, 19)])
def test_rows_that_were_stored_and_not_counted_are_written_over(small: str, counted: int, stored: int) -> None:
    async def work() -> None:
        await fill(open_list(small, "rows", 0), 0, stored)
        later = open_list(small, "rows", counted)
        assert await numbers(later) == list(range(counted))
        await fill(later, 100, 105)
        expected = [*range(counted), *range(100, 105)]
        assert await numbers(later) == await numbers(open_list(small, "rows", counted + 5)) == expected

    asyncio.run(work())


def test_rows_are_read_while_others_are_appended(small: str) -> None:
    async def work() -> None:
        made = open_list(small, "rows", 0)
        seen: list[int] = []
        await made.append(ManifestEntry("root", 0, 1.5, True, ""))
        while rows := await made.read_rows(len(seen)):
            for row in rows:
                seen.append(row.size or 0)
                if made.count < 57:
                    for _ in range(4):
                        await made.append(ManifestEntry("n", made.count, 1.5, True, ""))
        assert seen == list(range(made.count))
        assert made.count == 57

    asyncio.run(work())


def test_lists_of_one_task_and_of_others_do_not_mix(small: str) -> None:
    async def work() -> None:
        await fill(open_list(small, "entries-0", 0), 0, 12)
        await fill(open_list(small, "entries-1", 0), 50, 51)
        await fill(open_list(f"{small}x", "entries-0", 0), 90, 92)
        assert await numbers(open_list(small, "entries-0", 12)) == list(range(12))
        assert await numbers(open_list(small, "entries-1", 1)) == [50]

    asyncio.run(work())


def test_clearing_a_task_leaves_nothing_of_it(small: str, folder: Path) -> None:
    async def work() -> None:
        await fill(open_list(small, "rows", 0), 0, 25)
        await fill(open_list("other", "rows", 0), 0, 1)
        assert sorted(path.name for path in (folder / small).iterdir()) == [f"rows-{n:06}" for n in range(3)]
        await staging.clear(small)
        await staging.clear(small)

    asyncio.run(work())
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_ten_thousand_rows_take_no_more_memory_than_a_thousand(folder: Path) -> None:
    name = "folder/" * 60

    async def work(task_id: str, count: int) -> None:
        made = open_list(task_id, "rows", 0)
        for number in range(count):
            await made.append(ManifestEntry(f"{name}{number}", number, 1.5, False, ""))
        await made.flush()
        seen = 0
        while rows := await made.read_rows(seen):
            assert len(rows) <= staging.ROWS_PER_FILE
            assert rows[0].size == seen
            seen += len(rows)
        assert seen == count

    def peak(task_id: str, count: int) -> int:
        tracemalloc.start()
        try:
            asyncio.run(work(task_id, count))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak("warm", 1000)
    assert peak("big", 10_000) < peak("small", 1000) + 1_000_000
    assert sum(path.stat().st_size for path in (folder / "big").iterdir()) > 4_000_000


def test_rows_are_staged_lists_and_entries_of_any_size(small: str, folder: Path) -> None:
    row = ManifestEntry("a", None, 1.5, False, "tag")

    async def work() -> list[ManifestEntry]:
        made = staging.open_entries(small, 0, 0)
        await made.append(row)
        await made.flush()
        return await staging.open_entries(small, 0, 1).read_rows(0)

    assert asyncio.run(work()) == [row]
    assert (folder / small / "entries-0-000000").read_bytes() == b'["a",null,1.5,false,"tag",""]'
    (folder / small / "entries-0-000000").write_bytes(b'["old",7,0.0,true,""]')
    (old,) = asyncio.run(staging.open_entries(small, 0, 1).read_rows(0))
    assert (old.path, old.size, old.is_dir, old.version) == ("old", 7, True, (7, 0.0, ""))
