"""Folders of invented files: the same in every process, bounded, and changed in their listing only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import DriverContext, Upload
from mangrove.drivers.context import LocalState
from mangrove.drivers.virtual import driver as virtual
from mangrove.drivers.virtual.driver import MAX_ENTRIES, Virtual
from mangrove.drivers.virtual.options import VirtualOptions

P = TreePath


def run_on_driver(work: Callable[[Virtual], Awaitable[Any]], **options: int) -> Any:
    defaults = {"num_file": 3, "num_folder": 2, "min_file_size": 10, "max_file_size": 20}
    values = replace(VirtualOptions.parse("{}"), **(defaults | options))
    return asyncio.run(_run(work, values))


async def _run(work: Callable[[Virtual], Awaitable[Any]], options: VirtualOptions) -> Any:
    return await work(Virtual(options, DriverContext(modified=5.0)))


async def body(content: bytes) -> AsyncIterator[bytes]:
    yield content


def test_a_folder_is_the_same_at_every_look_and_so_is_each_below() -> None:
    async def work(driver: Virtual) -> None:
        entries = await base.list_all(driver, P("/"))
        assert [entry.is_dir for entry in entries] == [False] * 3 + [True] * 2
        assert all(10 <= (entry.size or 0) <= 20 for entry in entries[:3])
        assert await base.list_all(driver, P("/")) == entries
        below = P("/") / entries[-1].name
        assert await driver.stat(below) == entries[-1]
        assert await base.list_all(driver, below) == await base.list_all(driver, below)
        with pytest.raises(EntryNotFound):
            await driver.stat(P("/none"))
        with pytest.raises(NotSupported):
            await base.list_all(driver, P("/") / entries[0].name)

    run_on_driver(work)


def test_a_file_has_as_many_bytes_as_its_size() -> None:
    async def work(driver: Virtual) -> None:
        entry = (await base.list_all(driver, P("/")))[0]
        path = P("/") / entry.name
        for offset, length, expected in ((0, None, 15), (5, None, 10), (5, 4, 4), (99, None, 0)):
            blocks = [block async for block in await driver.read(path, offset, length)]
            assert len(b"".join(blocks)) == expected
        with pytest.raises(NotSupported):
            await driver.read(P("/"))

    run_on_driver(work, min_file_size=15, max_file_size=15)


@pytest.mark.parametrize(("num_file", "entry_count"), [(-1, 0), (0, 0), (1 << 40, MAX_ENTRIES)])
def test_the_number_of_entries_is_bounded(num_file: int, entry_count: int) -> None:
    entries = run_on_driver(lambda driver: base.list_all(driver, P("/")), num_file=num_file, num_folder=0)
    assert len(entries) == entry_count


def test_it_has_as_many_files_and_folders_of_as_many_bytes_as_it_should() -> None:
    options = {"num_file": 7, "num_folder": 4, "min_file_size": 100, "max_file_size": 200}
    entries = run_on_driver(lambda driver: base.list_all(driver, P("/")), **options)
    sizes = [entry.size for entry in entries if not entry.is_dir]
    assert (len(sizes), len(entries)) == (7, 11)
    assert all(100 <= (size or 0) <= 200 for size in sizes)


def test_changes_are_seen_in_the_listing() -> None:
    async def work(driver: Virtual) -> None:
        await driver.makedirs(P("/d/e"))
        with pytest.raises(BadRequest, match="has 3 bytes instead of the announced 4"):
            await driver.write(P("/d/f"), body(b"abc"), Upload(4, 1.0))
        await driver.write(P("/d/f"), body(b"abc"), Upload(3, 1.0))
        await driver.copy(P("/d/f"), P("/d/e/g"))
        await driver.rename(P("/d/f"), P("/d/h"))
        await driver.move(P("/d/e"), P("/d/i"))
        assert {entry.name: entry.size for entry in await base.list_all(driver, P("/d"))} == {"h": 3, "i": 0}
        assert [entry.name for entry in await base.list_all(driver, P("/d/i"))] == ["g"]
        await driver.remove(P("/d"))
        with pytest.raises(EntryNotFound):
            await driver.stat(P("/d"))

    run_on_driver(work)


@pytest.mark.parametrize("overwrite", [False, True])
def test_virtual_taken_name_is_replaced_only_by_file_if_allowed(overwrite: bool) -> None:
    async def work(driver: Virtual) -> None:
        assert await driver.can_refuse_existing()
        for folder in ("/d", "/e"):
            await driver.makedirs(P(folder))
        for name in ("/f", "/g", "/d/x"):
            await driver.write(P(name), body(name.encode()), Upload(None, 1.0))
        await driver.rename(P("/f"), P("/f"), overwrite=overwrite)
        with pytest.raises(EntryExists):
            await driver.makedirs(P("/f/below"))
        for verb in (driver.rename, driver.move, driver.copy):
            for old, new in (("/d", "/e"), ("/d", "/f"), ("/f", "/d")):
                with pytest.raises(EntryExists):
                    await verb(P(old), P(new), overwrite=overwrite)
            assert (await driver.stat(P("/d/x"))).size == 4
        if not overwrite:
            with pytest.raises(EntryExists):
                await driver.rename(P("/f"), P("/g"), overwrite=False)
            with pytest.raises(EntryExists):
                await driver.write(P("/g"), body(b""), Upload(0, 1.0, overwrite=False))
        else:
            await driver.rename(P("/d/x"), P("/g"))
        assert (await driver.stat(P("/g"))).size == (4 if overwrite else 2)

    run_on_driver(work, num_file=0, num_folder=0)


def _open_processes(count: int, state: LocalState, **numbers: int) -> list[Virtual]:
    """Drivers of one storage, as several processes have them."""
    values = {"num_file": 5, "num_folder": 5, "min_file_size": 10, "max_file_size": 20} | numbers
    options = replace(VirtualOptions.parse("{}"), **values)
    return [Virtual(options, DriverContext(modified=5.0, storage_id=3, state=state)) for _ in range(count)]


def test_tree_in_two_processes_is_the_same() -> None:
    """C4: each process generated a tree of its own, so that `list` and `get` differed."""

    async def work() -> None:
        first, second = _open_processes(2, LocalState())
        folder = P("/")
        for _ in range(4):
            entries = await base.list_all(first, folder)
            assert len(entries) == 10
            assert [await second.stat(folder / entry.name) for entry in entries] == entries
            folder = folder / entries[-1].name
        other = Virtual(first.options, DriverContext(modified=5.0, storage_id=4))
        assert await base.list_all(other, P("/")) != await base.list_all(first, P("/"))

    asyncio.run(work())


def test_changes_of_one_process_are_seen_by_another() -> None:
    async def work() -> None:
        first, second = _open_processes(2, LocalState())
        file, *_, folder = await base.list_all(first, P("/"))
        below = (await base.list_all(first, P("/") / folder.name))[0].name
        await first.move(P("/") / folder.name, P("/moved"))
        await second.copy(P("/moved"), P("/copied"))
        await second.remove(P("/moved") / below)
        await first.remove(P("/") / file.name)
        await second.makedirs(P("/") / folder.name)
        for driver in (first, second):
            names = {entry.name for entry in await base.list_all(driver, P("/"))}
            assert {"moved", "copied", folder.name} <= names and file.name not in names
            assert await base.list_all(driver, P("/") / folder.name) == []
            assert len(await base.list_all(driver, P("/moved"))) == 9
            assert (await driver.stat(P("/copied") / below)).size is not None

    asyncio.run(work())


def test_concurrent_changes_of_processes_lose_none() -> None:
    async def work() -> None:
        drivers = _open_processes(3, LocalState(), num_file=0, num_folder=0)
        await asyncio.gather(
            *(driver.makedirs(P(f"/{number}-{step}")) for number, driver in enumerate(drivers) for step in range(10))
        )
        assert len(await base.list_all(drivers[0], P("/"))) == 30

    asyncio.run(work())


def test_more_changes_than_the_state_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "MAX_STATE_BYTES", 1 << 10)

    async def work() -> None:
        (driver,) = _open_processes(1, LocalState(), num_file=0, num_folder=0)
        made = 0
        with pytest.raises(StorageProblem, match="at most 1 KiB of changes"):
            for made in range(100):
                await driver.makedirs(P(f"/folder {made:03}"))
        assert 10 < made < 100
        assert len(await base.list_all(driver, P("/"))) == made
        await driver.remove(P("/folder 000"))
        await driver.makedirs(P("/again"))

    asyncio.run(work())
