"""Cases of the driver suite: files that are stored part by part."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from tests.contract.drivers.actions import content, exists, fails, names, put, upload_of
from tests.contract.drivers.cases import needs

P = TreePath


PIECE = 5 << 20  # bytes; the least that S3 takes for a part that is not the last


def _pieces(written: bytes) -> list[tuple[int, int, bytes]]:
    """Number, offset and content of each part."""
    offsets = range(0, len(written), PIECE)
    return [(number, offset, written[offset : offset + PIECE]) for number, offset in enumerate(offsets, 1)]


@needs("parts", "write", "makedirs")
async def a_file_is_made_of_parts_in_any_order_and_repeated(driver: Any) -> None:
    written = os.urandom(2 * PIECE + 12_345)
    await driver.makedirs(P("/d"))
    token = await driver.begin(P("/d/f"), upload_of(written), base.make_parts_key())
    pieces = _pieces(written)
    number, offset, torn = pieces[1]
    await driver.write_part(P("/d/f"), token, number, offset, b"\0" * len(torn))
    receipts: dict[int, str] = {}
    for number, offset, piece in [pieces[2], pieces[0], pieces[1], pieces[0]]:
        receipts[number] = await driver.write_part(P("/d/f"), token, number, offset, piece)
    assert await names(driver, "/d") == []
    assert not await exists(driver, "/d/f")
    entry = await driver.finish(P("/d/f"), token, [receipts[number] for number in sorted(receipts)], upload_of(written))
    assert (entry.name, entry.size, entry.is_dir) == ("f", len(written), False)
    assert await content(driver, "/d/f") == written
    assert await names(driver, "/d") == ["f"]


@needs("parts", "stream_part", "write")
async def parts_that_come_in_blocks_are_stored_at_once_and_again_when_they_broke_off(driver: Any) -> None:
    written = os.urandom(2 * PIECE + 12_345)
    token = await driver.begin(P("/f"), upload_of(written), base.make_parts_key())

    async def stream_piece(piece: bytes, most: int = len(written)) -> AsyncIterator[bytes]:
        for start in range(0, len(piece), 300_000):
            if start > most:
                raise ConnectionError
            yield piece[start : start + 300_000]

    async def store(number: int, offset: int, piece: bytes) -> str:
        return str(await driver.stream_part(P("/f"), token, number, offset, stream_piece(piece)))

    number, offset, torn = _pieces(written)[1]
    with pytest.raises(ConnectionError):
        await driver.stream_part(P("/f"), token, number, offset, stream_piece(torn[::-1], PIECE // 2))
    receipts = await asyncio.gather(*(store(*piece) for piece in _pieces(written)))
    await driver.finish(P("/f"), token, receipts, upload_of(written))
    assert await content(driver, "/f") == written
    assert await names(driver, "/") == ["f"]
    await fails(driver.stream_part(P("/f"), token, 1, 0, stream_piece(b"late")), EntryNotFound)


@needs("parts", "write")
async def parts_are_stored_at_once_and_by_another_process(driver: Any) -> None:
    written = os.urandom(3 * PIECE)
    token = str(await driver.begin(P("/f"), upload_of(written), base.make_parts_key()))
    stored = await asyncio.gather(*(driver.write_part(P("/f"), token, *piece) for piece in _pieces(written)))
    receipts = json.loads(json.dumps(stored))
    await driver.finish(P("/f"), token, receipts, upload_of(written))
    assert await content(driver, "/f") == written


@needs("parts", "write")
async def a_file_of_parts_replaces_the_old_one_only_at_its_end(driver: Any) -> None:
    written = os.urandom(PIECE + 1)
    await put(driver, "/f", b"old")
    token = await driver.begin(P("/f"), upload_of(written), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, *piece) for piece in _pieces(written)]
    assert await content(driver, "/f") == b"old"
    await driver.finish(P("/f"), token, receipts, upload_of(written))
    assert await content(driver, "/f") == written


@needs("parts", "write")
async def parts_of_another_size_than_announced_are_refused(driver: Any) -> None:
    written = os.urandom(PIECE + 10)
    await put(driver, "/f", b"old")
    token = await driver.begin(P("/f"), Upload(len(written) + 1, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, *piece) for piece in _pieces(written)]
    await fails(driver.finish(P("/f"), token, receipts, Upload(len(written) + 1, 1.7e9)), StorageProblem)
    await fails(driver.finish(P("/f"), token, receipts[:1], upload_of(written)), StorageProblem)
    assert await content(driver, "/f") == b"old"
    await driver.finish(P("/f"), token, receipts, upload_of(written))
    assert await content(driver, "/f") == written


@needs("parts", "write", "makedirs")
async def dropped_parts_leave_nothing(driver: Any) -> None:
    written = os.urandom(PIECE + 1)
    await driver.makedirs(P("/d"))
    token = await driver.begin(P("/d/f"), upload_of(written), base.make_parts_key())
    for piece in _pieces(written):
        await driver.write_part(P("/d/f"), token, *piece)
    await driver.abort(P("/d/f"), token)
    await driver.abort(P("/d/f"), token)
    await fails(driver.write_part(P("/d/f"), token, 1, 0, b"x"), StorageProblem)
    assert await names(driver, "/d") == []
    await left_over(driver, "/d")


@needs("parts", "write", "makedirs")
async def only_what_was_begun_under_a_key_is_aborted_by_it(driver: Any) -> None:
    """Two attempts at one path. S3 cannot tell them apart and leaves both; it keeps nothing of one without parts."""
    first, second = base.make_parts_key(), base.make_parts_key()
    await driver.makedirs(P("/d"))
    await driver.abort_by_key(P("/d/f"), first)
    lost = await driver.begin(P("/d/f"), Upload(3, 1.7e9), first)
    token = await driver.begin(P("/d/f"), Upload(3, 1.7e9), second)
    receipts = [await driver.write_part(P("/d/f"), token, 1, 0, b"abc")]
    await driver.abort_by_key(P("/d/f"), first)
    await driver.abort_by_key(P("/d/f"), first)
    await driver.finish(P("/d/f"), token, receipts, Upload(3, 1.7e9))
    assert await content(driver, "/d/f") == b"abc"
    if driver.name == "S3":
        await driver.abort(P("/d/f"), lost)
    await left_over(driver, "/d")


@needs("parts", "write")
async def a_token_serves_once(driver: Any) -> None:
    token = await driver.begin(P("/f"), Upload(3, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, b"abc")]
    await driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9))
    await put(driver, "/f", b"later")
    await driver.abort(P("/f"), token)
    assert await content(driver, "/f") == b"later"
    await left_over(driver, "/")


@needs("parts", "write")
async def parts_that_are_not_known_are_not_found(driver: Any) -> None:
    token = await driver.begin(P("/f"), Upload(3, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, b"abc")]
    await driver.abort(P("/f"), token)
    await fails(driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9)), EntryNotFound)
    token = await driver.begin(P("/f"), Upload(3, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, b"abc")]
    await driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9))
    await put(driver, "/f", b"later")
    await fails(driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9)), EntryNotFound)
    assert await content(driver, "/f") == b"later"


async def left_over(driver: Any, path: str) -> None:
    """Nothing unfinished lies about: no file beside the ones that are listed, no upload that S3 still keeps."""
    if driver.name == "S3":
        assert not (await driver.call("list_multipart_uploads")).get("Uploads")
    if driver.name == "Local":
        assert sorted(os.listdir(driver.get_unmapped().root.real + path)) == await names(driver, path)
