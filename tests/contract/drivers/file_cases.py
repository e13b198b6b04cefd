"""Cases of the driver suite: files that are written and read whole."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryNotFound, NotSupported
from mangrove.drivers import base
from mangrove.drivers.base import Driver, Upload
from tests.contract.drivers.actions import body, content, cut, fails, names, put, upload_of
from tests.contract.drivers.cases import needs

P = TreePath
NAMES = [
    "a.txt",
    "with space",
    "per%cent+plus&and=",
    "äöü-日本",
    "'quotes\"",
    "#hash?",
    "semi;colon",
    "~tilde",
    "dot..",
]


@needs()
async def the_root_is_a_folder_without_a_name(driver: Driver) -> None:
    root = await driver.stat(P("/"))
    assert (root.name, root.is_dir) == ("", True)


@needs()
async def what_is_missing_is_not_found(driver: Driver) -> None:
    await fails(driver.stat(P("/no/such")), EntryNotFound)
    await fails(driver.read(P("/nosuch")), EntryNotFound)
    await fails(base.list_all(driver, P("/nosuch")), EntryNotFound)


@needs("write", "makedirs")
async def a_file_comes_back_as_it_was_written(driver: Any) -> None:
    written = os.urandom(3_000_000)
    await driver.makedirs(P("/d"))
    entry = await driver.write(
        P("/d/f.bin"), body(written[:5], written[5:2_000_000], written[2_000_000:]), upload_of(written)
    )
    assert (entry.name, entry.size, entry.is_dir) == ("f.bin", len(written), False)
    assert (await driver.stat(P("/d/f.bin"))).size == len(written)
    assert await content(driver, "/d/f.bin") == written
    for offset, length in ((0, 1), (1, 10), (1_048_570, 20), (2_999_999, None), (2_999_990, 10), (0, 0)):
        stop = None if length is None else offset + length
        assert await content(driver, "/d/f.bin", offset, length) == written[offset:stop]


@needs("write")
async def an_empty_file_and_an_unknown_size_are_fine(driver: Any) -> None:
    await driver.write(P("/empty"), body(), Upload(0, 1.7e9))
    assert await content(driver, "/empty") == b""
    await driver.write(P("/open"), body(b"ab", b"c"), Upload(None, 1.7e9))
    assert await content(driver, "/open") == b"abc"
    assert {entry.name: entry.size for entry in await base.list_all(driver, P("/"))} == {"empty": 0, "open": 3}


@needs("write")
async def names_of_all_kinds_survive(driver: Any) -> None:
    for name in NAMES:
        await put(driver, f"/{name}", name.encode())
    assert await names(driver, "/") == sorted(NAMES)
    for name in NAMES:
        assert await content(driver, f"/{name}") == name.encode()
        assert (await driver.stat(P(f"/{name}"))).name == name


@needs("write")
async def a_body_that_ends_early_leaves_the_old_file(driver: Any) -> None:
    await put(driver, "/f", b"old")
    await fails(driver.write(P("/f"), cut(b"n" * 3_000_000), Upload(9_000_000, 1.7e9)), ConnectionResetError)
    assert await content(driver, "/f") == b"old"
    await fails(driver.write(P("/g"), cut(b"n" * 20_000_000), Upload(None, 1.7e9)), ConnectionResetError)
    assert await names(driver, "/") == ["f"]


@needs("write")
async def a_body_of_another_size_is_refused(driver: Any) -> None:
    await put(driver, "/f", b"old")
    for size in (2, 4, 20_000_000):
        await fails(driver.write(P("/f"), body(b"abc"), Upload(size, 1.7e9)), BadRequest)
    await fails(driver.write(P("/g"), body(b"x" * 20_000_000), Upload(19_000_000, 1.7e9)), BadRequest)
    assert await names(driver, "/") == ["f"]
    assert await content(driver, "/f") == b"old"


@needs("write")
async def a_cancelled_write_leaves_nothing(driver: Any) -> None:
    pass_checkpoint = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"z" * 5_000_000
            pass_checkpoint.set()
            await asyncio.sleep(0.01)

    writing = asyncio.create_task(driver.write(P("/f"), endless(), Upload(None, 1.7e9)))
    await pass_checkpoint.wait()
    await asyncio.sleep(0.05)
    writing.cancel()
    await asyncio.wait([writing])
    assert writing.cancelled()
    assert await names(driver, "/") == []


@needs("write")
async def a_file_is_replaced_and_never_over_a_folder(driver: Any) -> None:
    await put(driver, "/f", b"a longer old content")
    await put(driver, "/f", b"new")
    assert await content(driver, "/f") == b"new"


@needs("write")
async def a_reader_may_leave_early(driver: Any) -> None:
    await put(driver, "/f", b"y" * 5_000_000)
    for _ in range(40):  # more than any pool of connections or handles would forgive
        stream: Any = await driver.read(P("/f"))
        async for _block in stream:
            break
        await stream.aclose()
    assert len(await content(driver, "/f")) == 5_000_000


@needs("get_space")
async def space_is_plausible(driver: Any) -> None:
    try:
        space = await driver.get_space()
    except NotSupported:
        return
    assert 0 <= space.free <= space.total
