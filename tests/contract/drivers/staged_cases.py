"""Cases of the driver suite: files that are written in any order before they have a name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryExists, EntryNotFound
from mangrove.drivers.base import BLOCK, StagedFile, Upload
from tests.contract.drivers.actions import SENT_AT, content, fails, names, put
from tests.contract.drivers.cases import Server, needs
from tests.contract.drivers.write_cases import check_nothing_hidden

P = TreePath
STAGED = ("write", "open_staged")


async def make_body(staged: StagedFile, size: int) -> AsyncIterator[bytes]:
    """The bytes for a storage that cannot take the file itself."""
    for offset in range(0, size, BLOCK):
        if staged.is_committed:
            return
        yield await staged.read(offset, BLOCK)


async def open_filled(driver: Any, path: str) -> tuple[StagedFile, Upload]:
    staged: StagedFile = await driver.open_staged(P(path))
    await staged.write(BLOCK, b"end")
    await staged.write(0, b"begin")
    return staged, Upload(BLOCK + 3, SENT_AT, staged=staged)


FILLED = b"begin" + bytes(BLOCK - 5) + b"end"


@needs(*STAGED)
async def bytes_that_came_in_any_order_become_a_file_whole(driver: Any, server: Server) -> None:
    staged, upload = await open_filled(driver, "/f")
    assert await staged.read(2, 5) == b"gin\0\0" and await staged.read(BLOCK, 100) == b"end"
    await staged.truncate(BLOCK + 1)
    await staged.truncate(BLOCK + 3)
    await staged.write(BLOCK + 1, b"nd")
    await check_nothing_hidden(driver, server, "/", [])
    entry = await driver.write(P("/f"), make_body(staged, BLOCK + 3), upload)
    assert staged.is_committed and (entry.name, entry.size) == ("f", BLOCK + 3)
    assert await content(driver, "/f") == FILLED
    staged.close()
    await check_nothing_hidden(driver, server, "/", ["f"])


@needs(*STAGED)
async def what_is_let_go_or_refused_leaves_nothing_and_the_old_file(driver: Any, server: Server) -> None:
    await put(driver, "/f", b"old")
    staged, upload = await open_filled(driver, "/f")
    staged.close()
    staged, upload = await open_filled(driver, "/f")
    await fails(driver.write(P("/f"), make_body(staged, BLOCK + 3), replace(upload, size=1)), BadRequest)
    assert await content(driver, "/f") == b"old"
    if await driver.can_refuse_existing():
        staged, upload = await open_filled(driver, "/f")
        await fails(driver.write(P("/f"), make_body(staged, BLOCK + 3), replace(upload, overwrite=False)), EntryExists)
    assert await content(driver, "/f") == b"old"
    await check_nothing_hidden(driver, server, "/", ["f"])
    await fails(driver.open_staged(P("/none/f")), EntryNotFound)


@needs(*STAGED, "makedirs")
async def another_driver_gets_the_bytes(driver: Any) -> None:
    other = type(driver.get_unmapped())(driver.options, driver.context)
    await other.start()
    try:
        await driver.makedirs(P("/d"))
        await fails(driver.open_staged(P("/d")), EntryExists)
        staged, upload = await open_filled(driver, "/d/f")
        await other.write(P("/d/f"), make_body(staged, BLOCK + 3), upload)
        assert not staged.is_committed
        staged.close()
    finally:
        await other.stop()
    assert await content(driver, "/d/f") == FILLED and await names(driver, "/d") == ["f"]
