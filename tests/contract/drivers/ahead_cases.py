"""Cases of the driver suite: files that are written in any order before they have a name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryExists, EntryNotFound
from mangrove.drivers import base
from mangrove.drivers.ahead import Ahead, WritesAhead
from mangrove.drivers.base import BLOCK, Upload
from tests.contract.drivers.actions import SENT_AT, content, fails, names, put
from tests.contract.drivers.cases import Server, needs
from tests.contract.drivers.write_cases import check_nothing_hidden

P = TreePath
AHEAD = (base.Writes, WritesAhead)


async def make_body(ahead: Ahead, size: int) -> AsyncIterator[bytes]:
    """The bytes for a storage that cannot take the file itself."""
    for offset in range(0, size, BLOCK):
        if ahead.is_taken:
            return
        yield await ahead.read(offset, BLOCK)


async def open_filled(driver: Any, path: str) -> tuple[Ahead, Upload]:
    ahead: Ahead = await driver.open_ahead(P(path))
    await ahead.write(BLOCK, b"end")
    await ahead.write(0, b"begin")
    return ahead, Upload(BLOCK + 3, SENT_AT, ahead=ahead)


FILLED = b"begin" + bytes(BLOCK - 5) + b"end"


@needs(*AHEAD)
async def bytes_that_came_in_any_order_become_a_file_whole(driver: Any, server: Server) -> None:
    ahead, upload = await open_filled(driver, "/f")
    assert await ahead.read(2, 5) == b"gin\0\0" and await ahead.read(BLOCK, 100) == b"end"
    await ahead.truncate(BLOCK + 1)
    await ahead.truncate(BLOCK + 3)
    await ahead.write(BLOCK + 1, b"nd")
    await check_nothing_hidden(driver, server, "/", [])
    entry = await driver.write(P("/f"), make_body(ahead, BLOCK + 3), upload)
    assert ahead.is_taken and (entry.name, entry.size) == ("f", BLOCK + 3)
    assert await content(driver, "/f") == FILLED
    ahead.close()
    await check_nothing_hidden(driver, server, "/", ["f"])


@needs(*AHEAD)
async def what_is_let_go_or_refused_leaves_nothing_and_the_old_file(driver: Any, server: Server) -> None:
    await put(driver, "/f", b"old")
    ahead, upload = await open_filled(driver, "/f")
    ahead.close()
    ahead, upload = await open_filled(driver, "/f")
    await fails(driver.write(P("/f"), make_body(ahead, BLOCK + 3), replace(upload, size=1)), BadRequest)
    assert await content(driver, "/f") == b"old"
    if await driver.can_refuse_existing():
        ahead, upload = await open_filled(driver, "/f")
        await fails(driver.write(P("/f"), make_body(ahead, BLOCK + 3), replace(upload, overwrite=False)), EntryExists)
    assert await content(driver, "/f") == b"old"
    await check_nothing_hidden(driver, server, "/", ["f"])
    await fails(driver.open_ahead(P("/none/f")), EntryNotFound)


@needs(*AHEAD, base.MakesDirectories)
async def another_driver_gets_the_bytes(driver: Any) -> None:
    other = type(driver.get_unmapped())(driver.options, driver.context)
    await other.start()
    try:
        await driver.makedirs(P("/d"))
        await fails(driver.open_ahead(P("/d")), EntryExists)
        ahead, upload = await open_filled(driver, "/d/f")
        await other.write(P("/d/f"), make_body(ahead, BLOCK + 3), upload)
        assert not ahead.is_taken
        ahead.close()
    finally:
        await other.stop()
    assert await content(driver, "/d/f") == FILLED and await names(driver, "/d") == ["f"]
