"""Cases of the driver suite: listings, and that `stat` says the same."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFolder, NotSupported, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Driver, Entry
from tests.contract.drivers.actions import check_file, exists, fails, make_tree, names, put, read_tree
from tests.contract.drivers.cases import FILES, Server, needs

P = TreePath
MAX_BATCH_ENTRIES = 5000
DEEP = "/" + "/".join(f"level {number}" for number in range(20))


async def fill(driver: Any, server: Server, folder: str, many: int) -> list[str]:
    """Make files in a new folder: as many as wanted where the server has a quick way, else some; their names."""
    expected = [f"file {number:05}+%.txt" for number in range(many if server.fill is not None else 40)]
    if server.fill is not None:
        await server.fill(driver, folder, expected)
    else:
        await driver.makedirs(P(folder))
        for start in range(0, len(expected), 8):
            await asyncio.gather(*(put(driver, f"{folder}/{name}") for name in expected[start : start + 8]))
    return expected


def describe(entry: Entry) -> tuple[object, ...]:
    return entry.name, entry.size, entry.is_dir, int(entry.modified)


@needs(FILES, "makedirs")
async def thousands_of_entries_come_in_batches_and_each_once(driver: Any, server: Server) -> None:
    expected = await fill(driver, server, "/many", server.many)
    batches = [batch async for batch in driver.list(P("/many"))]
    assert max(map(len, batches)) <= MAX_BATCH_ENTRIES
    entries = [entry for batch in batches for entry in batch]
    assert sorted(entry.name for entry in entries) == expected
    assert not any(entry.is_dir for entry in entries)
    if driver.capabilities.write:
        assert {entry.size for entry in entries} == {1}
    assert (await driver.stat(P(f"/many/{expected[-1]}"))).name == expected[-1]


@needs(FILES, "makedirs")
async def a_listing_that_is_left_halfway_harms_nothing(driver: Any, server: Server) -> None:
    expected = await fill(driver, server, "/many", server.many // 5)
    for _ in range(2):
        listing = driver.list(P("/many"))
        async for _batch in listing:
            break
        await listing.aclose()
    assert await names(driver, "/many") == expected


@needs("list_folders", FILES, "makedirs")
async def many_folders_in_one_call_are_listed_as_each_of_them_is(driver: Any, server: Server) -> None:
    await fill(driver, server, "/many", server.many)
    await make_tree(driver, ["/a/b", "/empty"], ["/a/f", "/a/b/g"])
    paths = [P(path) for path in ("/a", "/nosuch", "/empty", "/many", "/a/f", "/a/b", "/a")]
    entries_by_number: dict[int, list[Entry]] = {number: [] for number in range(len(paths))}
    problems: dict[int, StorageProblem] = {}
    async for batch in driver.list_folders(paths):
        assert sum(len(page.entries) for page in batch) <= MAX_BATCH_ENTRIES
        for page in batch:
            assert page.number not in problems
            entries_by_number[page.number] += page.entries
            if page.problem is not None:
                problems[page.number] = page.problem
    assert {number: type(problem) for number, problem in problems.items()} == {1: EntryNotFound, 4: NotAFolder}
    for number in entries_by_number.keys() - problems.keys():
        assert entries_by_number[number] == await base.list_all(driver, paths[number])
    assert not entries_by_number[1] and not entries_by_number[4]
    assert [page async for batch in driver.list_folders([]) for page in batch] == []


@needs("list_names", FILES, "makedirs")
async def names_with_details_that_are_read_later_are_the_listing(driver: Any, server: Server) -> None:
    await fill(driver, server, "/many", server.many)
    await make_tree(driver, ["/many/folder", "/a/b"], ["/a/f"])
    for folder in ("/many", "/a"):
        entries = [entry async for batch in driver.list_names(P(folder)) for entry in batch]
        listed = await base.list_all(driver, P(folder))
        assert [(entry.name, entry.is_dir) for entry in entries] == [(entry.name, entry.is_dir) for entry in listed]
        assert await driver.read_details(P(folder), [entry.name for entry in entries]) == listed
        assert await driver.read_details(P(folder), ["nosuch"]) == [None]
    for missing in ("/nosuch", "/a/f"):
        kind = NotAFolder if missing == "/a/f" else EntryNotFound
        await fails(driver.read_details(P(missing), ["f"]), kind)
        with pytest.raises(kind):
            assert [batch async for batch in driver.list_names(P(missing))] == []


@needs(FILES, "makedirs")
async def listings_at_once_are_whole(driver: Any, server: Server) -> None:
    expected = await fill(driver, server, "/many", server.many // 10)
    assert await asyncio.gather(*(names(driver, "/many") for _ in range(3))) == [expected] * 3


@needs(FILES, "makedirs")
async def a_listing_that_is_cancelled_harms_nothing(driver: Any, server: Server) -> None:
    expected = await fill(driver, server, "/many", server.many // 10)
    for pause in (0.0, 0.002, 0.02):
        listings = [asyncio.create_task(names(driver, "/many")) for _ in range(3)]
        await asyncio.sleep(pause)
        for listing in listings:
            listing.cancel()
        await asyncio.wait(listings)
    assert await names(driver, "/many") == expected


@needs(FILES, "makedirs")
async def a_listing_says_what_stat_says(driver: Any) -> None:
    await driver.makedirs(P("/d/sub"))
    for name, written in (("empty", b""), ("one", b"1"), ("more", b"m" * 5000), ("with space %41+#", b"abc")):
        await put(driver, f"/d/{name}", written)
    entries = await base.list_all(driver, P("/d"))
    assert len(entries) == 5
    for entry in entries:
        entry_alone = await driver.stat(P("/d") / entry.name)
        assert describe(entry) == describe(entry_alone)
        assert not entry.etag or not entry_alone.etag or entry.etag == entry_alone.etag
        assert (entry.size is not None) or not entry.is_dir
        assert '"' not in entry.etag


@needs(FILES, "makedirs")
async def times_are_seconds_of_this_era(driver: Any) -> None:
    await make_tree(driver, ["/d/sub"], ["/d/f"])
    for entry in [*await base.list_all(driver, P("/d")), await driver.stat(P("/d")), await driver.stat(P("/"))]:
        for moment in (entry.modified, entry.created):
            assert 0.0 <= moment < time.time() + 24 * 3600


@needs()
async def the_root_can_be_listed(driver: Driver) -> None:
    entries = await base.list_all(driver, P("/"))
    assert all(entry.name and "/" not in entry.name for entry in entries)


@needs()
async def a_missing_path_is_not_found_however_deep(driver: Driver) -> None:
    for path in ("/nosuch", "/no/such", "/no/such/path", "/with space", "/%2e%2e", "/ä"):
        await fails(driver.stat(P(path)), EntryNotFound)
        await fails(base.list_all(driver, P(path)), EntryNotFound)


@needs("makedirs")
async def an_empty_folder_lists_nothing(driver: Any) -> None:
    await driver.makedirs(P("/d/e"))
    assert await base.list_all(driver, P("/d/e")) == []
    assert [(entry.name, entry.is_dir) for entry in await base.list_all(driver, P("/d"))] == [("e", True)]
    assert (await driver.stat(P("/d/e"))).size == 0


@needs(FILES, "makedirs")
async def below_a_file_there_is_nothing(driver: Any) -> None:
    await put(driver, "/f")
    await fails(driver.stat(P("/f/below")), EntryNotFound)
    await fails(driver.read(P("/f/below")), (EntryNotFound, NotSupported))
    await fails(base.list_all(driver, P("/f")), (NotAFolder, EntryNotFound))
    await fails(base.list_all(driver, P("/f/below")), (NotAFolder, EntryNotFound))
    await check_file(driver, "/f", b"x")


@needs(FILES, "makedirs")
async def folders_whose_names_begin_alike_are_kept_apart(driver: Any) -> None:
    files = ["/a/f", "/ab/f", "/abc", "/a b/f", "/a./f", "/A.txt"]
    await make_tree(driver, ["/a", "/ab", "/a b", "/a."], files)
    for folder in ("/a", "/ab", "/a b", "/a."):
        assert await names(driver, folder) == ["f"]
    assert await read_tree(driver) == sorted(["/a/", "/ab/", "/a b/", "/a./", *files])


@needs(FILES, "makedirs")
async def deep_trees_are_no_different(driver: Any) -> None:
    await driver.makedirs(P(DEEP))
    await put(driver, f"{DEEP}/f", b"deep")
    await check_file(driver, f"{DEEP}/f", b"deep")
    assert await names(driver, DEEP) == ["f"]
    assert await names(driver, "/level 0") == ["level 1"]
    assert not await exists(driver, f"{DEEP}/g")
    if driver.capabilities.remove:
        await driver.remove(P("/level 0/level 1"))
        assert await read_tree(driver) == ["/level 0/"]


@needs(FILES, "makedirs")
async def a_new_name_is_listed_at_once(driver: Any) -> None:
    """Whatever was listed before: drivers keep no listings."""
    await driver.makedirs(P("/d"))
    expected: list[str] = []
    for number in range(4):
        assert await names(driver, "/d") == expected
        assert not await exists(driver, f"/d/{number}")
        await put(driver, f"/d/{number}")
        expected.append(str(number))
        assert await exists(driver, f"/d/{number}")


@needs(FILES, "makedirs")
async def many_stats_at_once_are_answered(driver: Any) -> None:
    await make_tree(driver, ["/d"], [f"/d/{number}" for number in range(10)])
    paths = [P(f"/d/{number % 15}") for number in range(100)]
    results = await asyncio.gather(*(driver.stat(path) for path in paths), return_exceptions=True)
    for path, entry in zip(paths, results, strict=True):
        if int(path.name) < 10:
            assert isinstance(entry, Entry) and entry.name == path.name, entry
        else:
            assert isinstance(entry, EntryNotFound)


@needs(FILES, "makedirs")
async def calls_that_are_cancelled_leave_the_driver_fit(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/f", "/d/g"])
    for pause in (0.0, 0.0005, 0.002, 0.01):
        calls = [asyncio.create_task(driver.stat(P("/d/f"))) for _ in range(5)]
        calls += [asyncio.create_task(names(driver, "/d")) for _ in range(5)]
        await asyncio.sleep(pause)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert await names(driver, "/d") == ["f", "g"]
    await asyncio.gather(*(driver.stat(P("/d/f")) for _ in range(20)))


@needs()
async def a_driver_that_was_stopped_can_be_stopped_again(driver: Driver) -> None:
    await driver.stat(P("/"))
    await driver.stop()
    await driver.stop()
