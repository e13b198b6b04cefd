"""Cases of the driver suite: a file is read or removed only while it is the one that was meant; what is to survive a
power cut is stored like the rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, NotAFile
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from tests.contract.drivers.actions import body, content, exists, fails, names, put, upload_of
from tests.contract.drivers.cases import needs

P = TreePath


@needs("remove_unchanged", "write")
async def a_file_that_is_unchanged_is_removed(driver: Any) -> None:
    await put(driver, "/f", b"f")
    await put(driver, "/g", b"g")
    entry = await driver.stat(P("/f"))
    await driver.remove_unchanged(P("/f"), entry)
    await driver.remove_unchanged(P("/f"), entry)
    assert await names(driver, "/") == ["g"]


@needs("remove_unchanged", "write", "makedirs")
async def a_file_that_changed_is_not_removed(driver: Any) -> None:
    """Also when its size and the time that its sender gave it are the same."""
    await driver.makedirs(P("/d"))
    for newer in (b"new", b"longer"):
        await put(driver, "/d/f", b"old")
        entry = await driver.stat(P("/d/f"))
        await put(driver, "/d/f", newer)
        await fails(driver.remove_unchanged(P("/d/f"), entry), EntryChanged)
        assert await content(driver, "/d/f") == newer
    assert await names(driver, "/d") == ["f"]


@needs("remove_unchanged", "write")
async def a_removal_beside_writes_loses_none_that_was_answered_after_it_began(driver: Any) -> None:
    if not await driver.can_refuse_existing():
        pytest.skip(f"{driver.name} decides nothing in one step: names are held")
    for number in range(20):
        await put(driver, "/f", b"old")
        entry = await driver.stat(P("/f"))
        newer = b"new %d" % number
        writing = asyncio.create_task(put(driver, "/f", newer))
        removed = await asyncio.gather(driver.remove_unchanged(P("/f"), entry), return_exceptions=True)
        await writing
        assert isinstance(removed[0], EntryChanged | None)
        assert await content(driver, "/f") == newer


@needs("write")
async def a_file_is_read_only_while_it_is_the_one_that_was_shown(driver: Any) -> None:
    await put(driver, "/f", b"old content")
    shown = await driver.stat(P("/f"))
    (listed,) = await base.list_all(driver, P("/"))
    for entry in (shown, listed):
        stream = await driver.read(P("/f"), 4, 3, entry)
        assert b"".join([block async for block in stream]) == b"con"
    await put(driver, "/f", b"new")
    for entry in (shown, listed):
        await fails(driver.read(P("/f"), 0, None, entry), EntryChanged)


@needs("read_whole", "write", "makedirs")
async def files_are_read_whole_while_they_are_those_that_were_shown(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    written = {"/f": b"f", "/d/empty": b"", "/d/longer": bytes(range(256)) * 5000, "/d/changed": b"old"}
    for path, content_ in written.items():
        await put(driver, path, content_)
    shown = [(P(path), await driver.stat(P(path))) for path in written]
    await put(driver, "/d/changed", b"new")
    results = await driver.read_whole([*shown, (P("/gone"), shown[0][1]), (P("/d"), shown[0][1])])
    assert [type(result) for result in results[3:]] == [EntryChanged, EntryNotFound, NotAFile]
    assert [(result.describe(), result.content) for result in results[:3]] == [
        (entry, written[path]) for path, entry in shown[:3]
    ]
    listed = [entry async for batch in driver.list(P("/d")) for entry in batch if entry.name == "longer"]
    assert (await driver.read_whole([(P("/d/longer"), listed[0])]))[0].content == written["/d/longer"]


@needs("write", "makedirs", "remove")
async def what_is_to_survive_a_power_cut_is_stored(driver: Any) -> None:
    """That it survives is proved elsewhere; also in folders that are new, and in one that was made again."""
    for _ in range(2):
        await driver.makedirs(P("/a/b/c"))
        await driver.write(P("/a/b/c/f"), body(b"f"), replace(upload_of(b"f"), durable=True))
        assert await content(driver, "/a/b/c/f") == b"f"
        await driver.remove(P("/a"))
    assert not await exists(driver, "/a")


@needs("parts", "copy", "write")
async def parts_and_copies_that_are_to_survive_a_power_cut_are_stored(driver: Any) -> None:
    upload = Upload(3, 1.7e9, durable=True)
    token = await driver.begin(P("/f"), upload, base.make_parts_key())
    await driver.finish(P("/f"), token, [await driver.write_part(P("/f"), token, 1, 0, b"abc")], upload)
    await driver.copy(P("/f"), P("/g"), durable=True)
    assert (await content(driver, "/f"), await content(driver, "/g")) == (b"abc", b"abc")


@needs()
async def a_driver_says_what_it_can_promise(driver: Any) -> None:
    assert isinstance(await driver.can_refuse_existing(), bool)
    assert isinstance(await driver.proves_writes(), bool)
