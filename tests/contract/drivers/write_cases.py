"""Cases of the driver suite: files are written whole or not at all, in every size."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryNotFound, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import BLOCK, Upload
from tests.contract.drivers.actions import SENT_AT, body, content, cut, exists, fails, names, put, upload_of
from tests.contract.drivers.cases import Server, needs

P = TreePath
MAX_POLLS = 2400  # within two minutes, which a server may take to clear away
PART = 5 << 20  # bytes; the least that S3 takes for a part that is not the last
SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 1)


async def check_nothing_hidden(driver: Any, server: Server, path: str, names_left: list[str]) -> None:
    """Check that a folder holds these names only, whatever the driver leaves out of its listings.

    A server may still be busy with a connection that broke off. rclone answers a listing with broken XML while files of
    the folder are removed, so the folder is listed last.
    """
    if server.look is not None:
        for _ in range(MAX_POLLS):
            if sorted(server.look(driver, path)) == names_left:
                break
            await asyncio.sleep(0.05)
        assert sorted(server.look(driver, path)) == names_left
    assert await names(driver, path) == names_left


class HeldBody:
    """A body that stops halfway until it may go on."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        self.is_halfway, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._halves = first, rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._halves[0]
        self.is_halfway.set()
        await self.may_go_on.wait()
        yield self._halves[1]


@needs("write")
async def files_of_every_size_come_back_as_they_were_sent(driver: Any) -> None:
    written = os.urandom(max(SIZES))
    for size in SIZES:
        entry = await driver.write(P("/f"), body(written[:size]), upload_of(written[:size]))
        assert (entry.name, entry.size) == ("f", size)
        assert await content(driver, "/f") == written[:size]
    assert await names(driver, "/") == ["f"]


@needs("write")
async def files_of_unknown_size_come_back_as_they_were_sent(driver: Any) -> None:
    written = os.urandom(max(SIZES))
    for size in (0, 1, PART, PART + 1, 2 * PART):
        await driver.write(P("/f"), body(written[:size]), Upload(None, SENT_AT))
        assert await content(driver, "/f") == written[:size]


@needs("write")
async def chunks_of_every_size_are_joined(driver: Any) -> None:
    for sizes in ([1] * 300, [0, 5, 0, 0, 7, 0], [BLOCK + 1, 1, BLOCK - 1], [3, PART, 3]):
        chunks = [os.urandom(size) for size in sizes]
        await driver.write(P("/f"), body(*chunks), Upload(sum(sizes), SENT_AT))
        assert await content(driver, "/f") == b"".join(chunks)


@needs("write")
async def a_shorter_file_leaves_nothing_of_a_longer_one(driver: Any) -> None:
    for written in (b"a" * 2_000_000, b"b", b"", b"c" * 100):
        await put(driver, "/f", written)
        assert await content(driver, "/f") == written
        assert (await driver.stat(P("/f"))).size == len(written)


@needs("write")
async def a_body_that_fails_at_any_place_leaves_nothing(driver: Any, server: Server) -> None:
    for sizes in ((), (1,), (100_000,), (PART, 1), (3 * PART,)):
        sent = [b"n" * size for size in sizes]
        for announced in (sum(sizes), sum(sizes) + 1, 9 * PART, None):
            await fails(driver.write(P("/f"), cut(*sent), Upload(announced, SENT_AT)), ConnectionResetError)
    await check_nothing_hidden(driver, server, "/", [])


@needs("write")
async def a_body_that_fails_leaves_the_file_that_was_there(driver: Any, server: Server) -> None:
    await put(driver, "/f", b"old")
    for sent in ((), (b"n",), (b"n" * PART, b"n")):
        await fails(driver.write(P("/f"), cut(*sent), Upload(None, SENT_AT)), ConnectionResetError)
    await check_nothing_hidden(driver, server, "/", ["f"])
    assert await content(driver, "/f") == b"old"


@needs("write")
async def a_body_of_another_length_leaves_nothing(driver: Any, server: Server) -> None:
    for size, announced in ((0, 1), (1, 0), (5, 4), (PART, PART + 1), (PART + 1, PART)):
        await fails(driver.write(P("/f"), body(b"x" * size), Upload(announced, SENT_AT)), BadRequest)
    await check_nothing_hidden(driver, server, "/", [])


@needs("write")
async def a_write_that_is_cancelled_at_any_time_leaves_all_or_nothing(driver: Any, server: Server) -> None:
    written = b"n" * 300_000
    await put(driver, "/f", b"old")
    for pause in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05):
        writing = asyncio.create_task(driver.write(P("/f"), body(written[:9], written[9:]), upload_of(written)))
        await asyncio.sleep(pause)
        writing.cancel()
        await asyncio.wait([writing])
        assert await content(driver, "/f") in (b"old", written)
    await check_nothing_hidden(driver, server, "/", ["f"])


@needs("write")
async def a_write_that_is_cancelled_while_it_waits_for_bytes_leaves_nothing(driver: Any, server: Server) -> None:
    for first in (b"", b"n", b"n" * (PART + 1)):
        held = HeldBody(first, b"")
        writing = asyncio.create_task(driver.write(P("/f"), aiter(held), Upload(None, SENT_AT)))
        await held.is_halfway.wait()
        writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()
    await check_nothing_hidden(driver, server, "/", [])


@needs("write")
async def a_file_that_is_being_written_is_not_to_be_seen(driver: Any) -> None:
    held = HeldBody(b"n" * (PART + 1), b"end")
    writing = asyncio.create_task(driver.write(P("/f"), aiter(held), Upload(None, SENT_AT)))
    await held.is_halfway.wait()
    assert await names(driver, "/") == []
    assert not await exists(driver, "/f")
    await fails(driver.read(P("/f")), EntryNotFound)
    held.may_go_on.set()
    await writing
    assert await names(driver, "/") == ["f"]
    assert await content(driver, "/f") == b"n" * (PART + 1) + b"end"


@needs("write")
async def the_old_file_is_there_until_the_new_one_is_whole(driver: Any) -> None:
    await put(driver, "/f", b"old")
    held = HeldBody(b"n" * (PART + 1), b"end")
    writing = asyncio.create_task(driver.write(P("/f"), aiter(held), Upload(None, SENT_AT)))
    await held.is_halfway.wait()
    assert [(entry.name, entry.size) for entry in await base.list_all(driver, P("/"))] == [("f", 3)]
    assert await content(driver, "/f") == b"old"
    held.may_go_on.set()
    await writing
    assert await content(driver, "/f") == b"n" * (PART + 1) + b"end"


@needs("write")
async def a_slow_body_holds_up_nobody(driver: Any) -> None:
    held = [HeldBody(b"begin ", b"end %d" % number) for number in range(4)]
    writing = [
        asyncio.create_task(driver.write(P(f"/slow {number}"), aiter(held_body), Upload(11, SENT_AT)))
        for number, held_body in enumerate(held)
    ]
    await asyncio.gather(*(held_body.is_halfway.wait() for held_body in held))
    await put(driver, "/quick", b"quick")
    assert await content(driver, "/quick") == b"quick"
    for held_body in held:
        held_body.may_go_on.set()
    await asyncio.gather(*writing)
    assert await content(driver, "/slow 3") == b"begin end 3"


@needs("write")
async def what_a_write_answers_is_what_is_there(driver: Any) -> None:
    entry = await put(driver, "/f", b"content")
    entry_alone = await driver.stat(P("/f"))
    assert (
        (entry.name, entry.size, entry.is_dir)
        == (entry_alone.name, entry_alone.size, entry_alone.is_dir)
        == ("f", 7, False)
    )
    assert int(entry.modified) in (int(entry_alone.modified), 0) or abs(entry.modified - entry_alone.modified) < 5
    assert not entry.etag or not entry_alone.etag or entry.etag == entry_alone.etag


@needs("write", "makedirs")
async def a_time_is_that_of_the_sender_or_of_the_storage(driver: Any) -> None:
    """Never one of another zone or unit."""
    await driver.makedirs(P("/d"))
    await put(driver, "/d/f")
    (listed,) = await base.list_all(driver, P("/d"))
    for entry in (listed, await driver.stat(P("/d/f"))):
        assert entry.modified == SENT_AT or abs(entry.modified - time.time()) < 600
        assert entry.created == 0.0 or abs(entry.created - time.time()) < 600 or entry.created == SENT_AT


@needs("write", "makedirs")
async def a_write_does_not_replace_a_folder(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    await put(driver, "/d/f", b"f")
    await fails(put(driver, "/d", b"file"), StorageProblem)
    await fails(put(driver, "/d", b"file", overwrite=False), StorageProblem)
    assert await names(driver, "/") == ["d"]
    assert await content(driver, "/d/f") == b"f"


@needs("write")
async def the_root_is_not_written_to(driver: Any) -> None:
    await fails(driver.write(P("/"), body(b"x"), Upload(1, SENT_AT)), StorageProblem)
    await fails(driver.read(P("/")), StorageProblem)
    assert await names(driver, "/") == []
