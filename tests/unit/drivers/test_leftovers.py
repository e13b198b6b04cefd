"""Unfinished files that a storage did not remove: removed when it answers again, also by the next process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import InUse, Problem, StorageForbidden, Unreachable
from mangrove.drivers import leftovers
from mangrove.drivers.context import LocalState
from mangrove.drivers.leftovers import Leftovers, parse_names

P = TreePath


class Disk:
    """Files of which none is removed while there is a `problem`."""

    def __init__(self, *paths: str) -> None:
        self.paths = {P(path) for path in paths}
        self.problem: Problem | None = None
        self.calls = 0

    async def remove(self, path: TreePath) -> bool:
        self.calls += 1
        if self.problem is not None:
            raise self.problem
        was_there = path in self.paths
        self.paths.discard(path)
        return was_there


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(limited())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(leftovers, "MAX_RETRY_SECONDS", 0.02)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # nothing says when
        await asyncio.sleep(0.01)


async def until_forgotten(state: LocalState) -> None:
    while await state.read():  # noqa: ASYNC110 - nothing says when
        await asyncio.sleep(0.01)


def test_discard_of_a_silent_storage_is_done_when_it_answers() -> None:
    async def work() -> None:
        disk, state = Disk("/a", "/b"), LocalState()
        names = Leftovers(state, disk.remove)
        disk.problem = Unreachable()
        await names.discard(P("/a"))
        await names.discard(P("/b"))
        assert parse_names(await state.read()) == ["/a", "/b"]
        await asyncio.sleep(0.1)
        assert len(disk.paths) == 2
        disk.problem = None
        await until(lambda: not disk.paths)
        await until_forgotten(state)
        await names.stop()

    run(work)


def test_names_of_a_process_that_ended_are_removed_by_the_next() -> None:
    async def work() -> None:
        disk, state = Disk("/a"), LocalState()
        first = Leftovers(state, disk.remove)
        disk.problem = Unreachable()
        await first.discard(P("/a"))
        await first.stop()
        disk.problem = None
        second = Leftovers(state, disk.remove)
        second.start()
        await until(lambda: not disk.paths)
        await second.stop()

    run(work)


def test_file_that_appears_after_its_removal_is_removed() -> None:
    """A request of a connection that broke may still make it."""

    async def work() -> None:
        disk = Disk()
        names = Leftovers(LocalState(), disk.remove)
        await names.discard(P("/late"))
        disk.paths.add(P("/late"))
        await until(lambda: not disk.paths)
        assert disk.calls == 2
        await names.discard(P("/never"))
        await until(lambda: disk.calls == 5)  # immediately, and twice more
        await asyncio.sleep(0.1)
        assert disk.calls == 5
        await names.stop()

    run(work)


def test_refused_removal_is_given_up() -> None:
    async def work() -> None:
        disk, state = Disk("/a"), LocalState()
        names = Leftovers(state, disk.remove)
        disk.problem = StorageForbidden()
        await names.discard(P("/a"))
        await until(lambda: disk.calls == 2)
        await until_forgotten(state)
        await asyncio.sleep(0.1)
        assert disk.calls == 2
        await names.stop()

    run(work)


def test_file_that_is_in_use_is_removed_later() -> None:
    """A server may still hold the file of a connection that broke off."""

    async def work() -> None:
        disk = Disk("/a")
        names = Leftovers(LocalState(), disk.remove)
        disk.problem = InUse()
        await names.discard(P("/a"))
        await until(lambda: disk.calls > 3)
        disk.problem = None
        await until(lambda: not disk.paths)
        await names.stop()

    run(work)


def test_files_are_removed_beside_a_slow_one() -> None:
    async def work() -> None:
        disk, is_released = Disk("/a", "/b"), asyncio.Event()

        async def remove(path: TreePath) -> bool:
            if path == "/a" and disk.problem is None:
                await is_released.wait()
            return await disk.remove(path)

        names = Leftovers(LocalState(), remove)
        disk.problem = Unreachable()
        await names.discard(P("/a"))
        await names.discard(P("/b"))
        disk.problem = None
        await until(lambda: disk.paths == {"/a"})
        is_released.set()
        await until(lambda: not disk.paths)
        await names.stop()

    run(work)


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "MAX_LEFTOVERS", 3)

    async def work() -> None:
        disk, state = Disk(), LocalState()
        disk.problem = Unreachable()
        names = Leftovers(state, disk.remove)
        for number in range(5):
            disk.paths.add(P(f"/{number}"))
            await names.discard(P(f"/{number}"))
        assert parse_names(await state.read()) == ["/2", "/3", "/4"]
        disk.problem = None
        await until(lambda: len(disk.paths) == 2)
        assert disk.paths == {"/0", "/1"}
        await names.stop()

    run(work)


@pytest.mark.parametrize("text", ["", '{"/d":["",1.0]}', "[3]"])
def test_state_of_another_kind_of_storage_has_no_names(text: str) -> None:
    assert parse_names(text) == []
