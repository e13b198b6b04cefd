"""The connections of one storage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangrove.core.problems import StorageForbidden, Unreachable
from mangrove.drivers import connections
from mangrove.drivers.connections import ConnectionPool
from tests.support.waiting import settle


class Link:
    """A connection to nowhere."""

    def __init__(self) -> None:
        self.is_up = True
        self.answers = True


class Server:
    """Opens and closes links; `refusal` is what it answers instead."""

    def __init__(self, **limits: int) -> None:
        self.opened: list[Link] = []
        self.closed: list[Link] = []
        self.refusal: Exception | None = None
        self.asked_count = self.tried = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.pool = ConnectionPool(self._open, self._close, lambda link: link.is_up, self._check, **limits)  # type: ignore[arg-type]

    async def _open(self) -> Link:
        self.tried += 1
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(Link())
        return self.opened[-1]

    async def _close(self, link: Link) -> None:
        self.closed.append(link)

    async def _check(self, link: Link) -> bool:
        self.asked_count += 1
        return link.answers

    async def hold(self, release: asyncio.Event) -> Link:
        async with self.pool.use() as link:
            await release.wait()
            return link


def run(work: Callable[[], Awaitable[Any]]) -> None:
    async def all_of_it() -> None:
        await work()

    asyncio.run(all_of_it())


def test_a_connection_is_used_again_and_by_one_at_a_time() -> None:
    async def work() -> None:
        server, release = Server(limit=3), asyncio.Event()
        for _ in range(3):
            async with server.pool.use():
                pass
        assert len(server.opened) == 1
        holding = [asyncio.create_task(server.hold(release)) for _ in range(8)]
        await asyncio.sleep(0)
        release.set()
        links = await asyncio.gather(*holding)
        assert (len(server.opened), len(set(map(id, links)))) == (3, 3)
        await server.pool.close()
        assert len(server.closed) == 3

    run(work)


def test_a_connection_that_is_shared_is_opened_once_for_all_who_wait() -> None:
    async def work() -> None:
        server, release = Server(limit=2, sharing=4), asyncio.Event()
        server.gate.clear()
        holding = [asyncio.create_task(server.hold(release)) for _ in range(4)]
        for _ in range(3):
            await asyncio.sleep(0)
        server.gate.set()
        release.set()
        assert len({id(link) for link in await asyncio.gather(*holding)}) == 1
        assert server.tried == 1

    run(work)


def test_who_leaves_while_it_opens_takes_nothing_from_the_others() -> None:
    async def work() -> None:
        server, release = Server(limit=1, sharing=4), asyncio.Event()
        server.gate.clear()
        first, second = (asyncio.create_task(server.hold(release)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        server.gate.set()
        release.set()
        assert await second is server.opened[0]
        assert (server.tried, server.closed) == (1, [])

    run(work)


def test_broken_connection_is_closed_after_last_user() -> None:
    async def work() -> None:
        server, release = Server(limit=2, sharing=2), asyncio.Event()
        holding = asyncio.create_task(server.hold(release))
        await asyncio.sleep(0)
        async with server.pool.use() as link:
            link.is_up = False
        assert server.closed == []
        async with server.pool.use() as other:
            assert other is not link
        release.set()
        await holding
        await settle()
        assert server.closed == [link]

    run(work)


def test_one_that_was_idle_is_asked_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CHECK_AFTER_SECONDS", 0.0)

    async def work() -> None:
        server = Server(limit=1)
        async with server.pool.use() as first:
            pass
        async with server.pool.use() as again:
            assert again is first
        first.answers = False
        async with server.pool.use() as other:
            assert other is not first
        assert server.asked_count == 2
        await settle()
        assert server.closed == [first]

    run(work)


def test_idle_ones_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_TIMEOUT_SECONDS", 0.02)

    async def work() -> None:
        server, release = Server(limit=2), asyncio.Event()
        holding = asyncio.create_task(server.hold(release))
        await asyncio.sleep(0)
        async with server.pool.use():
            pass
        while not server.closed:  # noqa: ASYNC110 - nothing says when
            await asyncio.sleep(0.01)
        assert (len(server.closed), server.pool.size) == (1, 1)  # not the one that is in use
        release.set()
        await holding

    run(work)


def test_those_that_nobody_uses_are_closed_for_others() -> None:
    async def work() -> None:
        server, release = Server(limit=3), asyncio.Event()
        holding = [asyncio.create_task(server.hold(release)) for _ in range(2)]
        await asyncio.sleep(0)
        async with server.pool.use():
            pass
        server.pool.close_unused(60)
        assert server.pool.size == 3
        server.pool.close_unused()
        assert server.pool.size == 2
        release.set()
        await asyncio.gather(*holding)
        await settle()
        assert server.closed == [server.opened[2]]

    run(work)


def test_a_failure_stands_for_the_next_callers_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(connections, "RETRY_AFTER_SECONDS", 60.0)
        server = Server(limit=1)
        server.refusal = StorageForbidden("wrong password")
        for _ in range(5):
            with pytest.raises(StorageForbidden, match=r"^wrong password$"):
                async with server.pool.use():
                    pass
        assert server.tried == 1
        monkeypatch.setattr(connections, "RETRY_AFTER_SECONDS", 0.0)
        server = Server(limit=1)
        server.refusal = StorageForbidden("wrong password")
        with pytest.raises(StorageForbidden):
            async with server.pool.use():
                pass
        server.refusal = None
        async with server.pool.use():
            assert server.tried == 2

    run(work)


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OPEN_TIMEOUT_SECONDS", 0.05)

    async def work() -> None:
        server = Server(limit=1)
        server.gate.clear()
        with pytest.raises(Unreachable, match=r"^no connection within the time allowed$"):
            async with server.pool.use():
                pass
        assert server.pool.size == 0

    run(work)


def test_who_waits_too_long_for_a_free_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAIT_TIMEOUT_SECONDS", 0.05)

    async def work() -> None:
        server, release = Server(limit=1), asyncio.Event()
        holding = asyncio.create_task(server.hold(release))
        await asyncio.sleep(0)
        with pytest.raises(Unreachable, match=r"^all connections to the storage are in use$"):
            async with server.pool.use():
                pass
        release.set()
        await holding
        async with server.pool.use():
            assert len(server.opened) == 1

    run(work)


def test_connections_of_another_event_loop_are_forgotten() -> None:
    servers: list[Server] = []

    async def work() -> None:
        servers.append(servers[0] if servers else Server(limit=1))
        async with servers[0].pool.use() as link:
            assert link is servers[0].opened[-1]
        servers[0].gate = asyncio.Event()
        servers[0].gate.set()

    run(work)
    run(work)
    assert len(servers[0].opened) == 2
