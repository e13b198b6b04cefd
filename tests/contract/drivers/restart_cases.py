"""Cases of the driver suite: the server stops and comes back, and the driver with it. They need a way to restart it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from tests.contract.drivers.actions import SENT_AT, content, names, open_another, put, upload_of
from tests.contract.drivers.cases import Server, needs
from tests.contract.drivers.write_cases import HeldBody

P = TreePath
PIECE = 5 << 20  # bytes
RECOVERY_SECONDS = 120.0  # within which a driver works again
Result = TypeVar("Result")


async def restart(server: Server) -> None:
    assert server.restart is not None
    await asyncio.to_thread(server.restart)


async def until_it_works(call: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of a call once the driver works again; until then it may fail with a StorageProblem only."""
    end = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return await call()
        except StorageProblem:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.1)


@needs("write", hooks=["restart"])
async def a_driver_works_again_after_its_server_restarted(driver: Any, server: Server) -> None:
    await put(driver, "/f", b"before")
    for _ in range(2):
        await restart(server)
        assert await until_it_works(lambda: content(driver, "/f")) == b"before"
        assert (await driver.stat(P("/f"))).size == 6
        assert await names(driver, "/") == ["f"]
    await restart(server)
    await until_it_works(lambda: put(driver, "/f", b"after"))
    assert await content(driver, "/f") == b"after"


@needs("write", hooks=["restart"])
async def many_calls_right_after_a_restart_succeed_at_last(driver: Any, server: Server) -> None:
    await put(driver, "/f", b"f")
    await asyncio.gather(*(driver.stat(P("/f")) for _ in range(12)))
    await restart(server)
    await asyncio.gather(*(until_it_works(lambda: driver.stat(P("/f"))) for _ in range(12)))
    assert await content(driver, "/f") == b"f"


@needs("write", hooks=["restart"])
async def a_read_during_a_restart_gives_all_bytes_or_fails(driver: Any, server: Server) -> None:
    written = os.urandom(16 << 20)
    await put(driver, "/f", written)
    stream = await driver.read(P("/f"))
    blocks = [await anext(stream)]
    await restart(server)
    try:
        blocks += [block async for block in stream]
        assert b"".join(blocks) == written
    except StorageProblem:
        pass
    assert await until_it_works(lambda: content(driver, "/f", 7, 7)) == written[7:14]


@needs("write", hooks=["restart"])
async def a_write_during_a_restart_is_whole_or_fails(driver: Any, server: Server) -> None:
    written = os.urandom(PIECE + 10)
    await put(driver, "/f", b"old")
    held = HeldBody(written[:PIECE], written[PIECE:])
    writing = asyncio.create_task(driver.write(P("/f"), aiter(held), upload_of(written)))
    await held.is_halfway.wait()
    await restart(server)
    held.may_go_on.set()
    try:
        await writing
        expected = written
    except StorageProblem:
        expected = b"old"
    assert await until_it_works(lambda: content(driver, "/f")) == expected
    assert await names(driver, "/") == ["f"]
    await until_it_works(lambda: put(driver, "/f", b"new"))
    assert await content(driver, "/f") == b"new"


@needs("parts", "write", hooks=["restart"])
async def a_file_of_parts_goes_on_after_a_restart(driver: Any, server: Server) -> None:
    """Of the server and of the service: what was received for is stored."""
    written = os.urandom(2 * PIECE + 5)
    token = await driver.begin(P("/f"), upload_of(written), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, written[:PIECE])]
    await restart(server)
    store = driver.write_part
    receipts.append(await until_it_works(lambda: store(P("/f"), token, 2, PIECE, written[PIECE : 2 * PIECE])))
    await restart(server)
    async with open_another(driver) as other:
        receipts.append(await other.write_part(P("/f"), token, 3, 2 * PIECE, written[2 * PIECE :]))
        await other.finish(P("/f"), token, receipts, Upload(len(written), SENT_AT))
        assert await content(other, "/f") == written
        assert await names(other, "/") == ["f"]
