"""A stream of events and its client, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import Message

from mangrove.core.paths import TreePath
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.listing import listings
from mangrove.web import events
from mangrove.web.events import HEARTBEAT, EventStream
from tests.unit.tree.environment import TreeEnv

WAIT_SECONDS = 120.0


class SlowClient:
    """A client that takes one message each time the test allows it."""

    def __init__(self) -> None:
        self.allowed = asyncio.Semaphore(0)
        self.taken: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: Message) -> None:
        await self.allowed.acquire()
        self.taken.put_nowait(message.get("body", b"start"))

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def take(self) -> bytes:
        self.allowed.release()
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.taken.get()


@asynccontextmanager
async def stream(access: PathAccess) -> AsyncIterator[tuple[SlowClient, EventStream]]:
    """A stream of a folder after its first event."""

    async def evaluate() -> PathAccess:
        return access

    client, answer = SlowClient(), EventStream("/disk", evaluate, "u")
    scope: dict[str, Any] = {"type": "http"}
    running = asyncio.create_task(answer(scope, client.receive, client.send))
    assert [await client.take() for _ in range(3)][2] == b'event: ready\ndata: {"path":"/disk"}\n\n'
    try:
        yield client, answer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_many_changes_before_a_client_reads_are_few_events(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most two: one may have been made after some of the changes, and waits to be sent."""
    monkeypatch.setattr(events, "HEARTBEAT_INTERVAL_SECONDS", 600.0)
    tree.mount_disk()
    access = tree.access("/disk")

    async def go() -> None:
        storage_id = access.find_mount()[0].storage.id
        async with stream(access) as (client, answer):
            listings().forget(storage_id, TreePath("/"))
            assert await client.take() == b'event: folder\ndata: {"path":"/disk"}\n\n'
            for _ in range(1000):
                listings().forget(storage_id, TreePath("/"))
                await asyncio.sleep(0)
            await asyncio.sleep(3 * events.POLL_INTERVAL_SECONDS)
            assert await client.take() == b'event: folder\ndata: {"path":"/disk"}\n\n'
            for _ in range(3):
                client.allowed.release()
            await asyncio.sleep(3 * events.POLL_INTERVAL_SECONDS)
            assert client.taken.qsize() <= 1
            answer.end()
            async with asyncio.timeout(WAIT_SECONDS):
                while await client.taken.get():
                    pass

    tree.run(go())


def test_silent_stream_has_heartbeats(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_INTERVAL_SECONDS", 0.01)
    tree.mount_disk()
    access = tree.access("/disk")

    async def go() -> None:
        async with stream(access) as (client, _):
            assert [await client.take() for _ in range(3)] == [HEARTBEAT] * 3

    tree.run(go())


def test_stream_ends_for_a_new_evaluation(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_STREAM_SECONDS", 0.0)
    tree.mount_disk()
    access = tree.access("/disk")

    async def go() -> None:
        async with stream(access) as (client, _):
            assert await client.take() == b""

    tree.run(go())
