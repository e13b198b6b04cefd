"""Cases of the driver suite: files are read whole, in ranges, concurrently and partly."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from contextlib import suppress
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, NotAFile, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import BLOCK, Upload
from tests.contract.drivers.actions import SENT_AT, body, content, fails, names, put, upload_of
from tests.contract.drivers.cases import needs

P = TreePath
LONG = 2 * BLOCK + 777


async def read_or_refuse(driver: Any, path: str, offset: int, length: int | None) -> bytes:
    """Return the bytes of a range that does not fit; nothing if it is refused."""
    try:
        return await content(driver, path, offset, length)
    except StorageProblem:
        return b""


@needs("write")
async def every_range_within_a_file_gives_its_bytes(driver: Any) -> None:
    written = os.urandom(LONG)
    await put(driver, "/f", written)
    ends = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, LONG - 1)
    for offset in ends:
        for length in (1, BLOCK, LONG - offset, None):
            if length is None or offset + length <= LONG:
                stop = None if length is None else offset + length
                assert await content(driver, "/f", offset, length) == written[offset:stop], (offset, length)


@needs("write")
async def a_range_of_no_bytes_is_empty(driver: Any) -> None:
    await put(driver, "/f", b"abc")
    await put(driver, "/empty", b"")
    for offset in (0, 1, 2):
        assert await content(driver, "/f", offset, 0) == b""
    assert await content(driver, "/empty") == b""
    assert await content(driver, "/empty", 0, 0) == b""


@needs("write")
async def what_lies_beyond_the_end_is_never_other_bytes(driver: Any) -> None:
    await put(driver, "/f", b"abc")
    for offset, length in ((3, None), (3, 1), (4, None), (1000, 10)):
        assert await read_or_refuse(driver, "/f", offset, length) == b""
    assert await read_or_refuse(driver, "/f", 1, 1000) in (b"bc", b"")
    assert await content(driver, "/f", 1, 2) == b"bc"


@needs("write")
async def blocks_are_of_at_most_a_mebibyte(driver: Any) -> None:
    await put(driver, "/f", os.urandom(LONG))
    sizes = [len(block) async for block in await driver.read(P("/f"))]
    assert sum(sizes) == LONG
    assert max(sizes) <= BLOCK


@needs("write", "open_file")
async def a_file_goes_to_a_socket_in_parts_that_the_socket_takes(driver: Any) -> None:
    written = os.urandom(LONG)
    await put(driver, "/f", written)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    file = await driver.open_file(P("/f"), await driver.stat(P("/f")))
    with ours, theirs:
        assert await file.send_to(ours.fileno(), LONG, 10) == 0
        offset, received = 1000, b""
        while offset < LONG:
            with suppress(BlockingIOError):
                offset += await file.send_to(ours.fileno(), offset, LONG - offset)
            received += theirs.recv(LONG)
        ours.close()
        while block := theirs.recv(LONG):
            received += block
        assert received == written[1000:]
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(ConnectionError):
        await file.send_to(ours.fileno(), 0, 10)
    file.close()
    stale = await driver.stat(P("/f"))
    await put(driver, "/f", b"newer")
    await fails(driver.open_file(P("/f"), stale), EntryChanged)
    await fails(driver.open_file(P("/none")), EntryNotFound)
    await fails(driver.open_file(P("/")), NotAFile)


@needs("write")
async def many_readers_at_once_each_get_their_bytes(driver: Any) -> None:
    written = os.urandom(LONG)
    files = {"/f": written, "/g": written[::-1]}
    for path, body_sent in files.items():
        await put(driver, path, body_sent)
    ranges = [(path, random.randrange(LONG)) for path in files for _ in range(6)]
    contents_read = await asyncio.gather(*(content(driver, path, offset) for path, offset in ranges))
    assert contents_read == [files[path][offset:] for path, offset in ranges]


@needs("write")
async def readers_of_small_ranges_at_once_each_get_their_bytes(driver: Any) -> None:
    written = os.urandom(100_000)
    await put(driver, "/f", written)
    offsets = [random.randrange(90_000) for _ in range(40)]
    contents_read = await asyncio.gather(*(content(driver, "/f", offset, 1000) for offset in offsets))
    assert contents_read == [written[offset : offset + 1000] for offset in offsets]


@needs("write")
async def reading_goes_on_beside_readers_that_stopped_halfway(driver: Any) -> None:
    written = os.urandom(LONG)
    await put(driver, "/f", written)
    halfway: list[Any] = []
    for _ in range(4):
        stream = await driver.read(P("/f"))
        await anext(stream)
        halfway.append(stream)
    assert await content(driver, "/f", 5, 5) == written[5:10]
    assert [entry.name for entry in await base.list_all(driver, P("/"))] == ["f"]
    for stream in halfway:
        await stream.aclose()
    assert await content(driver, "/f") == written


@needs("write")
async def a_reader_that_comes_back_gets_the_rest(driver: Any) -> None:
    written = os.urandom(LONG)
    await put(driver, "/f", written)
    stream = await driver.read(P("/f"))
    blocks = [await anext(stream)]
    for _ in range(3):
        assert (await driver.stat(P("/f"))).size == LONG
        await asyncio.sleep(0.02)
    blocks += [block async for block in stream]
    assert b"".join(blocks) == written


@needs("write")
async def a_stream_that_is_opened_and_never_read_can_be_closed(driver: Any) -> None:
    await put(driver, "/f", os.urandom(LONG))
    for _ in range(20):
        await (await driver.read(P("/f"))).aclose()
    assert len(await content(driver, "/f")) == LONG


@needs("write")
async def a_read_that_is_cancelled_harms_no_other_one(driver: Any) -> None:
    written = os.urandom(LONG)
    await put(driver, "/f", written)
    for pause in (0.0, 0.001, 0.003, 0.01):
        readers = [asyncio.create_task(content(driver, "/f")) for _ in range(3)]
        await asyncio.sleep(pause)
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert await content(driver, "/f") == written


@needs("write", "makedirs")
async def opening_what_is_no_file_fails_before_the_first_block(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    await fails(driver.read(P("/nosuch")), EntryNotFound)
    await fails(driver.read(P("/nosuch/deep")), EntryNotFound)
    await fails(driver.read(P("/nosuch"), 5, 5), EntryNotFound)
    await fails(driver.read(P("/d")), (NotAFile, EntryNotFound))
    await fails(driver.read(P("/")), StorageProblem)


@needs("write")
async def a_slow_reader_gets_one_whole_version_or_a_failure(driver: Any) -> None:
    """The file is replaced while it is read: never the beginning of one and the end of another."""
    await put(driver, "/f", b"a" * 3_000_000)
    stream = await driver.read(P("/f"))
    blocks = [await anext(stream)]
    try:
        await driver.write(P("/f"), body(b"b" * 3_000_000), Upload(3_000_000, SENT_AT + 60))
        replaced = True
    except StorageProblem:  # a server that keeps a file that is being read
        replaced = False
    try:
        blocks += [block async for block in stream]
        assert b"".join(blocks) == b"a" * 3_000_000
    except StorageProblem:
        pass
    assert await content(driver, "/f") == (b"b" if replaced else b"a") * 3_000_000
    assert await names(driver, "/") == ["f"]


@needs("write", "remove")
async def a_file_can_be_removed_while_it_is_read(driver: Any) -> None:
    """The reader gets what there was, or a failure; the storage may refuse the removal."""
    await put(driver, "/f", b"a" * 3_000_000)
    stream = await driver.read(P("/f"))
    blocks = [await anext(stream)]
    try:
        await driver.remove(P("/f"))
        left = []
    except StorageProblem:
        left = ["f"]
    try:
        blocks += [block async for block in stream]
        assert b"".join(blocks) == b"a" * 3_000_000
    except StorageProblem:
        pass
    assert await names(driver, "/") == left


@needs("write")
async def a_version_that_is_gone_is_not_read(driver: Any) -> None:
    """Of a file that became shorter, longer, or only another one of the same size later."""
    for newer in (b"new", b"a longer content"):
        await put(driver, "/f", b"content")
        shown = await driver.stat(P("/f"))
        await driver.write(P("/f"), body(newer), upload_of(newer))
        await fails(driver.read(P("/f"), 0, None, shown), StorageProblem)
        await fails(driver.read(P("/f"), 1, 2, shown), StorageProblem)
        assert await content(driver, "/f") == newer
