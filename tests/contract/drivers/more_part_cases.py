"""Cases of the driver suite: parts of every size and in every order."""

from __future__ import annotations

import asyncio
import os
from itertools import permutations
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from tests.contract.drivers.actions import SENT_AT, content, exists, fails, make_tree, names, put, upload_of
from tests.contract.drivers.cases import Server, needs
from tests.contract.drivers.write_cases import check_nothing_hidden

P = TreePath
PIECE = 5 << 20  # bytes; the least that S3 takes for a part that is not the last


async def store(driver: Any, path: str, written: bytes, order: tuple[int, ...], piece: int = PIECE) -> None:
    """A file of parts of `piece` bytes, the last one of what is left, stored in an order of their numbers from 0."""
    token = await driver.begin(P(path), upload_of(written), base.make_parts_key())
    receipts: dict[int, str] = {}
    for number in order:
        part = written[number * piece : (number + 1) * piece]
        receipts[number] = await driver.write_part(P(path), token, number + 1, number * piece, part)
    entry = await driver.finish(P(path), token, [receipts[number] for number in sorted(receipts)], upload_of(written))
    assert (entry.name, entry.size, entry.is_dir) == (P(path).name, len(written), False)


@needs("parts", "write")
async def parts_may_be_stored_in_every_order(driver: Any) -> None:
    written = os.urandom(2 * PIECE + 1)
    for number, order in enumerate(permutations(range(3))):
        if number % 2 == 0:
            await store(driver, "/f", written, order)
            assert await content(driver, "/f") == written, order
    assert await names(driver, "/") == ["f"]


@needs("parts", "write")
async def a_file_of_one_part_may_have_any_size(driver: Any) -> None:
    for size in (1, 2, 1000, PIECE - 1, PIECE):
        written = os.urandom(size)
        await store(driver, "/f", written, (0,))
        assert await content(driver, "/f") == written


@needs("parts", "write")
async def the_last_part_may_have_any_size(driver: Any) -> None:
    for last in (1, 1000, PIECE):
        written = os.urandom(PIECE + last)
        await store(driver, "/f", written, (0, 1))
        assert await content(driver, "/f") == written


@needs("parts", "write")
async def an_empty_file_is_made_of_one_empty_part(driver: Any) -> None:
    await put(driver, "/f", b"old")
    await store(driver, "/f", b"", (0,))
    assert await content(driver, "/f") == b""
    assert (await driver.stat(P("/f"))).size == 0


@needs("parts", "write")
async def the_size_may_be_known_at_the_end_only(driver: Any) -> None:
    written = os.urandom(PIECE + 5)
    token = await driver.begin(P("/f"), Upload(None, SENT_AT), base.make_parts_key())
    receipts = [
        await driver.write_part(P("/f"), token, 1, 0, written[:PIECE]),
        await driver.write_part(P("/f"), token, 2, PIECE, written[PIECE:]),
    ]
    await driver.finish(P("/f"), token, receipts, upload_of(written))
    assert await content(driver, "/f") == written


@needs("parts", "write", "makedirs")
async def files_of_parts_at_once_do_not_mix(driver: Any) -> None:
    await make_tree(driver, ["/d"])
    contents = [os.urandom(PIECE + number) for number in range(1, 4)]
    await asyncio.gather(
        *(store(driver, f"/d/{number}", body_sent, (1, 0)) for number, body_sent in enumerate(contents))
    )
    for number, body_sent in enumerate(contents):
        assert await content(driver, f"/d/{number}") == body_sent


@needs("parts", "write", "makedirs")
async def parts_take_unusual_names(driver: Any) -> None:
    folder, path = "/in #1 %41", "/in #1 %41/a b+c;日本.bin"
    await make_tree(driver, [folder])
    await store(driver, path, b"abc", (0,))
    assert await names(driver, folder) == [P(path).name]
    assert await content(driver, path) == b"abc"


@needs("parts", "write", "makedirs")
async def parts_do_not_replace_a_folder(driver: Any, server: Server) -> None:
    await make_tree(driver, ["/d"], ["/d/f"])
    token = ""
    try:
        token = await driver.begin(P("/d"), Upload(1, SENT_AT), base.make_parts_key())
        receipt = await driver.write_part(P("/d"), token, 1, 0, b"x")
        await driver.finish(P("/d"), token, [receipt], Upload(1, SENT_AT))
    except StorageProblem:
        if token:
            await driver.abort(P("/d"), token)
    else:
        raise AssertionError("it was replaced")
    await check_nothing_hidden(driver, server, "/", ["d"])
    assert await content(driver, "/d/f") == b"/d/f"


@needs("parts", "write")
async def an_abandoned_attempt_is_not_to_be_seen_and_does_not_hinder(driver: Any) -> None:
    token = await driver.begin(P("/f"), Upload(3, SENT_AT), base.make_parts_key())
    await driver.write_part(P("/f"), token, 1, 0, b"abc")
    assert await names(driver, "/") == []
    assert not await exists(driver, "/f")
    await put(driver, "/f", b"whole")
    assert await content(driver, "/f") == b"whole"
    await driver.abort(P("/f"), token)
    assert await content(driver, "/f") == b"whole"


@needs("parts", "write")
async def a_token_that_was_never_given_opens_nothing(driver: Any) -> None:
    await put(driver, "/f", b"f")
    await fails(driver.write_part(P("/g"), "nosuch", 1, 0, b"x"), StorageProblem)
    await fails(driver.write_part(P("/f"), "nosuch", 1, 0, b"x"), StorageProblem)
    assert await names(driver, "/") == ["f"]
    assert await content(driver, "/f") == b"f"
