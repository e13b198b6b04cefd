"""Cases of the driver suite: concurrent calls, and another process at the same storage."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from tests.contract.drivers.actions import (
    SENT_AT,
    body,
    check_file,
    content,
    exists,
    fails,
    make_tree,
    names,
    open_another,
    put,
    read_tree,
    upload_of,
)
from tests.contract.drivers.cases import CHANGES, FILES, needs

P = TreePath


@needs("write")
async def writers_to_different_names_do_not_mix(driver: Any) -> None:
    contents = [os.urandom(50_000 + number) for number in range(16)]
    await asyncio.gather(*(put(driver, f"/{number}", body_sent) for number, body_sent in enumerate(contents)))
    assert await names(driver, "/") == sorted(map(str, range(16)))
    assert await asyncio.gather(*(content(driver, f"/{number}") for number in range(16))) == contents


@needs("write")
async def of_writers_to_one_name_one_wins_whole(driver: Any) -> None:
    contents = [bytes([number]) * (100_000 + number) for number in range(8)]
    done = await asyncio.gather(*(put(driver, "/f", body_sent) for body_sent in contents), return_exceptions=True)
    assert all(isinstance(body_sent, base.Entry | StorageProblem) for body_sent in done), done
    stored = [body_sent for body_sent, result in zip(contents, done, strict=True) if isinstance(result, base.Entry)]
    assert await content(driver, "/f") in stored
    assert await names(driver, "/") == ["f"]


@needs("write")
async def readers_beside_writers_see_whole_files(driver: Any) -> None:
    contents = [bytes([number]) * 200_000 for number in range(6)]
    await put(driver, "/f", contents[0])

    async def write_all() -> None:
        for body_sent in contents:
            await put(driver, "/f", body_sent)

    async def read_often() -> None:
        for _ in range(6):
            try:
                assert await content(driver, "/f") in contents
            except StorageProblem:  # it was replaced between the look and the opening
                pass

    await asyncio.gather(write_all(), read_often(), read_often())
    assert await content(driver, "/f") == contents[-1]


@needs("write", "makedirs")
async def listings_beside_writers_show_whole_files_only(driver: Any) -> None:
    await driver.makedirs(P("/d"))

    async def list_often() -> None:
        for _ in range(8):
            for entry in await base.list_all(driver, P("/d")):
                assert (entry.name.isdigit(), entry.size) == (True, 70_000)

    await asyncio.gather(list_often(), *(put(driver, f"/d/{number}", b"n" * 70_000) for number in range(12)))
    assert len(await names(driver, "/d")) == 12


@needs("write", "makedirs", "remove")
async def writes_stats_and_removals_at_once_do_not_disturb_each_other(driver: Any) -> None:
    await driver.makedirs(P("/d"))

    async def live(number: int) -> None:
        path = f"/d/{number}"
        for turn in range(2):
            written = b"%d %d" % (number, turn)
            await put(driver, path, written)
            assert (await driver.stat(P(path))).size == len(written)
            assert await content(driver, path) == written
            await driver.remove(P(path))
            await fails(driver.stat(P(path)), EntryNotFound)

    await asyncio.gather(*(live(number) for number in range(8)))
    assert await names(driver, "/d") == []


@needs("rename", FILES, "makedirs")
async def renames_at_once_each_do_their_own(driver: Any) -> None:
    await make_tree(driver, ["/d"], [f"/d/{number}" for number in range(10)])
    await asyncio.gather(*(driver.rename(P(f"/d/{number}"), P(f"/d/new {number}")) for number in range(10)))
    assert await names(driver, "/d") == [f"new {number}" for number in range(10)]
    await check_file(driver, "/d/new 7", b"/d/7")


@needs(*CHANGES)
async def what_one_process_changes_the_other_sees(driver: Any) -> None:
    async with open_another(driver) as other:
        await driver.makedirs(P("/d"))
        assert await names(other, "/d") == []
        await put(driver, "/d/f", b"f")
        assert await content(other, "/d/f") == b"f"
        await other.rename(P("/d/f"), P("/d/g"))
        assert await names(driver, "/d") == ["g"]
        assert not await exists(driver, "/d/f")
        await put(other, "/d/g", b"other")
        assert await content(driver, "/d/g") == b"other"
        await driver.remove(P("/d"))
        assert not await exists(other, "/d")


@needs("write")
async def a_driver_that_stops_ends_nothing_of_another(driver: Any) -> None:
    await put(driver, "/f", b"f" * 3_000_000)
    stream = await driver.read(P("/f"))
    blocks = [await anext(stream)]
    async with open_another(driver) as other:
        assert (await other.stat(P("/f"))).size == 3_000_000
    blocks += [block async for block in stream]
    assert b"".join(blocks) == b"f" * 3_000_000
    await put(driver, "/g")


@needs("get_change_token", FILES, "makedirs", "remove")
async def a_change_token_changes_with_the_names(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    seen = [await driver.get_change_token(P("/d"))]
    for change in (put(driver, "/d/f"), put(driver, "/d/g"), driver.remove(P("/d/f")), driver.makedirs(P("/d/e"))):
        await asyncio.sleep(0.02)  # the clock of the storage
        await change
        seen.append(await driver.get_change_token(P("/d")))
    assert len(set(seen)) == len(seen)


@needs("identify", FILES)
async def a_file_is_the_same_by_whichever_driver(driver: Any) -> None:
    await put(driver, "/f")
    await put(driver, "/g")
    async with open_another(driver) as other:
        assert await driver.identify(P("/f")) == await other.identify(P("/f"))
        assert not await driver.identify(P("/f")) & await other.identify(P("/g"))


@needs("get_checksums", "write")
async def checksums_are_those_of_the_bytes(driver: Any) -> None:
    written = os.urandom(70_000)
    await put(driver, "/f", written)
    for algorithm, digest in (await driver.get_checksums(P("/f"))).items():
        if algorithm in hashlib.algorithms_available:
            assert digest == hashlib.new(algorithm, written).hexdigest()


@needs("sync", "write", "makedirs")
async def what_is_there_is_synced_and_what_is_missing_not_found(driver: Any) -> None:
    await make_tree(driver, ["/d/sub"], ["/d/f", "/d/sub/g"])
    for path in ("/d/f", "/d", "/"):
        await driver.sync(P(path))
    await fails(driver.sync(P("/nosuch")), EntryNotFound)
    assert await read_tree(driver) == ["/d/", "/d/f", "/d/sub/", "/d/sub/g"]


@needs("parts", "write")
async def parts_begun_by_one_process_are_finished_by_another(driver: Any) -> None:
    written = os.urandom((5 << 20) + 77)
    token = await driver.begin(P("/f"), upload_of(written), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, written[: 5 << 20])]
    async with open_another(driver) as other:
        receipts.append(await other.write_part(P("/f"), token, 2, 5 << 20, written[5 << 20 :]))
        await other.finish(P("/f"), token, receipts, upload_of(written))
    assert await content(driver, "/f") == written


@needs("write")
async def a_writer_that_is_left_alone_does_not_keep_the_others_waiting(driver: Any) -> None:
    """A body that never ends, while other calls succeed; it is cancelled in the end."""
    never = asyncio.Event()

    async def endless() -> Any:
        yield b"begin"
        await never.wait()

    writing = asyncio.create_task(driver.write(P("/f"), endless(), Upload(None, SENT_AT)))
    await asyncio.sleep(0.01)
    await asyncio.gather(*(put(driver, f"/{number}", b"n") for number in range(6)))
    assert await content(driver, "/5") == b"n"
    writing.cancel()
    await asyncio.wait([writing])
    assert not await exists(driver, "/f")
    await driver.write(P("/f"), body(b"f"), Upload(1, SENT_AT))
    assert await content(driver, "/f") == b"f"
