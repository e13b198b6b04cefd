"""Cases of the driver suite: an existing name is replaced only on request, also by concurrent calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, NotSupported, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import CopyRequest, NewFile, Upload
from tests.contract.drivers.actions import body, content, exists, fails, names, put, upload_of
from tests.contract.drivers.cases import needs

P = TreePath
CONCURRENT_CALLS = 16
CONTENTS = [b"content %d" % number for number in range(CONCURRENT_CALLS)]


def only_new(written: bytes) -> Upload:
    return replace(upload_of(written), overwrite=False)


async def race(driver: Any, works: Iterable[Coroutine[Any, Any, Any]]) -> int:
    """Run all concurrently; return the index of the single one that was not refused."""
    if not await driver.can_refuse_existing():
        for work in works:
            work.close()
        pytest.skip(f"{driver.name} cannot refuse a name that is taken in one step")
    results = await asyncio.gather(*works, return_exceptions=True)
    assert Counter(map(type, results))[EntryExists] == CONCURRENT_CALLS - 1, results
    (winner,) = [number for number, result in enumerate(results) if not isinstance(result, BaseException)]
    return winner


async def put_all(driver: Any, folder: str) -> None:
    await driver.makedirs(P(folder))
    for number, written in enumerate(CONTENTS):
        await put(driver, f"{folder}/{number}", written)


async def check_losers(driver: Any, folder: str, winner: int) -> None:
    """Check that entries that were not renamed or moved are in their old places."""
    assert await names(driver, folder) == sorted(str(number) for number in range(CONCURRENT_CALLS) if number != winner)
    for number in {*range(0, CONCURRENT_CALLS, 5)} - {winner}:
        assert await content(driver, f"{folder}/{number}") == CONTENTS[number]


@needs("write")
async def a_write_without_overwrite_takes_only_a_free_name(driver: Any) -> None:
    await put(driver, "/f", b"old")
    await fails(driver.write(P("/f"), body(b"new"), only_new(b"new")), EntryExists)
    assert await content(driver, "/f") == b"old"
    await driver.write(P("/g"), body(b"new"), only_new(b"new"))
    assert await content(driver, "/g") == b"new"
    assert await names(driver, "/") == ["f", "g"]


@needs("parts", "write")
async def parts_without_overwrite_become_a_file_of_a_free_name_only(driver: Any) -> None:
    await put(driver, "/f", b"old")

    async def store(path: TreePath) -> None:
        token = await driver.begin(path, only_new(b"abc"), base.make_parts_key())
        try:
            receipts = [await driver.write_part(path, token, 1, 0, b"abc")]
            await driver.finish(path, token, receipts, only_new(b"abc"))
        except EntryExists:
            await driver.abort(path, token)
            raise

    await fails(store(P("/f")), EntryExists)
    await store(P("/g"))
    assert await content(driver, "/f") == b"old"
    assert await content(driver, "/g") == b"abc"


async def _check_verb(driver: Any, verb: Any, other: str) -> None:
    """A rename or move of files and folders onto names in the folder `other` that are free or taken."""
    for folder in ("/empty", "/full/sub", f"{other}/empty2", f"{other}/full2/sub"):
        await driver.makedirs(P(folder))
    await put(driver, "/f", b"f")
    await put(driver, f"{other}/g", b"g")
    before = await names(driver, other)
    for source in ("/f", "/empty", "/full"):
        for target in ("g", "empty2", "full2"):
            for overwrite in (False, True):
                if overwrite and (source, target) == ("/f", "g"):
                    continue
                await fails(verb(P(source), P(other) / target, overwrite=overwrite), EntryExists)
    assert await names(driver, other) == before
    assert await names(driver, f"{other}/full2") == await names(driver, "/full") == ["sub"]
    assert (await content(driver, "/f"), await content(driver, f"{other}/g")) == (b"f", b"g")
    await verb(P("/f"), P(other) / "g")
    assert (await content(driver, f"{other}/g"), await exists(driver, "/f")) == (b"f", False)
    await verb(P("/full"), P(other) / "full3", overwrite=False)
    assert await names(driver, f"{other}/full3") == ["sub"]


@needs("rename", "write", "makedirs")
async def a_rename_replaces_a_file_at_most_and_only_if_it_may(driver: Any) -> None:
    await _check_verb(driver, driver.rename, "")


@needs("move", "write", "makedirs")
async def a_move_replaces_a_file_at_most_and_only_if_it_may(driver: Any) -> None:
    await _check_verb(driver, driver.move, "/to")


@needs("copy", "write", "makedirs")
async def a_copy_replaces_a_file_at_most_and_only_if_it_may(driver: Any) -> None:
    for folder in ("/empty", "/to/empty", "/to/full/sub"):
        await driver.makedirs(P(folder))
    await put(driver, "/f", b"f")
    await put(driver, "/to/f", b"old")
    for source, target in (("/f", "/to/f"), ("/f", "/to/full"), ("/empty", "/to/full"), ("/empty", "/to/f")):
        await fails(driver.copy(P(source), P(target), overwrite=False), (EntryExists, NotSupported))
    assert await names(driver, "/to") == ["empty", "f", "full"]
    assert await content(driver, "/to/f") == b"old"
    await driver.copy(P("/f"), P("/to/g"), overwrite=False)
    await driver.copy(P("/f"), P("/to/f"))
    assert (await content(driver, "/to/f"), await content(driver, "/to/g")) == (b"f", b"f")


@needs("copy_from", "write")
async def files_of_another_storage_replace_nothing_without_overwrite(driver: Any) -> None:
    await put(driver, "/f", b"f")
    await put(driver, "/old", b"old")
    entry = await driver.stat(P("/f"))
    requests = [
        CopyRequest(P("/f"), P(target), 1, entry.modified, False, entry.etag, durable)
        for durable, target in ((False, "/old"), (True, "/old"), (False, "/new"), (True, "/new2"))
    ]
    results = await driver.copy_from(driver, requests)
    if results is None:
        pytest.skip(f"{driver.name} does not copy from itself")
    assert [type(result) for result in results] == [EntryExists, EntryExists, type(None), type(None)]
    assert [await content(driver, path) for path in ("/old", "/new", "/new2")] == [b"old", b"f", b"f"]


@needs("write_whole", "write", "makedirs")
async def small_files_are_stored_together_each_by_itself(driver: Any) -> None:
    await put(driver, "/old", b"old")
    await put(driver, "/replaced", b"old")
    await driver.makedirs(P("/folder"))
    replacing = upload_of(b"new")
    uploads = {"/old": only_new(b"new"), "/replaced": replacing, "/folder": replacing, "/folder/new": only_new(b"new")}
    durable = {f"/folder/{number}": replace(only_new(b"new"), durable=True) for number in range(40)}
    files = [NewFile(P(path), b"new", upload) for path, upload in (uploads | durable).items()]
    refused, replaced, blocked, *stored = await driver.write_whole(
        [*files, files[-1], files[0]._replace(path=P("/no/f"))]
    )
    assert [type(problem) for problem in (refused, blocked, stored[-2])] == [EntryExists] * 3
    assert isinstance(stored[-1], StorageProblem)
    assert [replaced, *stored[:-2]] == [await driver.stat(P(path)) for path in ("/replaced", "/folder/new", *durable)]
    assert await names(driver, "/") == ["folder", "old", "replaced"]
    assert (await content(driver, "/old"), await content(driver, "/replaced")) == (b"old", b"new")
    assert {await content(driver, path) for path in ("/folder/new", *durable)} == {b"new"}


@needs("write")
async def of_writes_to_one_free_name_at_once_one_wins(driver: Any) -> None:
    winner = await race(driver, [driver.write(P("/f"), body(body_sent), only_new(body_sent)) for body_sent in CONTENTS])
    assert await content(driver, "/f") == CONTENTS[winner]
    assert await names(driver, "/") == ["f"]


@needs("parts", "write")
async def of_parts_that_become_one_free_name_at_once_one_wins(driver: Any) -> None:
    begun = []
    for written in CONTENTS:
        token = await driver.begin(P("/f"), only_new(written), base.make_parts_key())
        begun.append((token, [await driver.write_part(P("/f"), token, 1, 0, written)]))
    uploads = [(*upload, only_new(written)) for upload, written in zip(begun, CONTENTS, strict=True)]
    winner = await race(driver, [driver.finish(P("/f"), *upload) for upload in uploads])
    assert await content(driver, "/f") == CONTENTS[winner]
    for token, _ in begun:
        await driver.abort(P("/f"), token)
    assert await content(driver, "/f") == CONTENTS[winner]


@needs("rename", "write", "makedirs")
async def of_renames_to_one_free_name_at_once_one_wins_and_nothing_is_lost(driver: Any) -> None:
    await put_all(driver, "/d")
    works = [driver.rename(P(f"/d/{number}"), P("/d/new"), overwrite=False) for number in range(CONCURRENT_CALLS)]
    winner = await race(driver, works)
    assert await content(driver, "/d/new") == CONTENTS[winner]
    await driver.rename(P("/d/new"), P(f"/d/{winner}"), overwrite=False)
    await check_losers(driver, "/d", -1)


@needs("move", "write", "makedirs")
async def of_moves_to_one_free_name_at_once_one_wins_and_nothing_is_lost(driver: Any) -> None:
    await put_all(driver, "/d")
    await driver.makedirs(P("/to"))
    works = [driver.move(P(f"/d/{number}"), P("/to/new"), overwrite=False) for number in range(CONCURRENT_CALLS)]
    winner = await race(driver, works)
    assert await content(driver, "/to/new") == CONTENTS[winner]
    await check_losers(driver, "/d", winner)


@needs("copy", "move", "write", "makedirs")
async def of_copies_moves_and_writes_to_one_free_name_at_once_one_wins(driver: Any) -> None:
    await put_all(driver, "/d")
    await driver.makedirs(P("/to"))
    verbs = [
        lambda number: driver.copy(P(f"/d/{number}"), P("/to/new"), overwrite=False, durable=number % 2 == 0),
        lambda number: driver.move(P(f"/d/{number}"), P("/to/new"), overwrite=False),
        lambda number: driver.write(P("/to/new"), body(CONTENTS[number]), only_new(CONTENTS[number])),
    ]
    winner = await race(driver, [verbs[number % 3](number) for number in range(CONCURRENT_CALLS)])
    assert await content(driver, "/to/new") == CONTENTS[winner]
    await check_losers(driver, "/d", winner if winner % 3 == 1 else -1)
