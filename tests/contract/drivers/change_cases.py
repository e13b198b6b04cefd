"""Cases of the driver suite: what is renamed, moved, copied and removed, and what stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported, StorageForbidden, StorageProblem
from tests.contract.drivers.actions import check_file, exists, fails, make_tree, names, put, read_tree
from tests.contract.drivers.cases import FILES, needs

P = TreePath


@needs("rename", FILES, "makedirs")
async def a_folder_is_renamed_with_all_it_holds(driver: Any) -> None:
    await make_tree(driver, ["/d/empty", "/d/sub/deep", "/dd"], ["/d/f", "/d/sub/deep/g", "/dd/f"])
    await driver.rename(P("/d"), P("/e"))
    assert await read_tree(driver) == sorted(
        ["/dd/", "/dd/f", "/e/", "/e/empty/", "/e/f", "/e/sub/", "/e/sub/deep/", "/e/sub/deep/g"]
    )
    await check_file(driver, "/e/sub/deep/g", b"/d/sub/deep/g")


@needs("rename", FILES, "makedirs")
async def a_rename_to_the_same_name_changes_nothing(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/f"])
    for path in ("/d/f", "/d"):
        try:
            await driver.rename(P(path), P(path))
        except EntryExists:
            pass
    assert await read_tree(driver) == ["/d/", "/d/f"]
    await check_file(driver, "/d/f", b"/d/f")


@needs("move", FILES, "makedirs")
async def a_move_onto_itself_changes_nothing(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/f"])
    for path in ("/d/f", "/d"):
        try:
            await driver.move(P(path), P(path))
        except StorageProblem:
            pass
    assert await read_tree(driver) == ["/d/", "/d/f"]
    await check_file(driver, "/d/f", b"/d/f")


@needs("copy", FILES, "makedirs")
async def a_copy_onto_itself_changes_nothing(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/f"])
    for path in ("/d/f", "/d"):
        try:
            await driver.copy(P(path), P(path))
        except StorageProblem:
            pass
    assert await read_tree(driver) == ["/d/", "/d/f"]
    await check_file(driver, "/d/f", b"/d/f")


@needs("move", FILES, "makedirs")
async def a_folder_is_not_moved_into_itself(driver: Any) -> None:
    await make_tree(driver, ["/d/sub"], ["/d/f"])
    for target in ("/d/d", "/d/sub/d", "/d/sub/sub"):
        await fails(driver.move(P("/d"), P(target)), StorageProblem)
    assert await read_tree(driver) == ["/d/", "/d/f", "/d/sub/"]


@needs("copy", FILES, "makedirs")
async def a_folder_is_not_copied_into_itself(driver: Any) -> None:
    await make_tree(driver, ["/d/sub"], ["/d/f"])
    for target in ("/d/d", "/d/sub/d"):
        await fails(driver.copy(P("/d"), P(target)), StorageProblem)
    assert await read_tree(driver) == ["/d/", "/d/f", "/d/sub/"]


@needs("move", FILES, "makedirs")
async def a_folder_is_moved_beside_one_whose_name_begins_alike(driver: Any) -> None:
    await make_tree(driver, ["/a", "/ab"], ["/a/f", "/ab/g"])
    await driver.move(P("/a"), P("/ab/a"))
    assert await read_tree(driver) == ["/ab/", "/ab/a/", "/ab/a/f", "/ab/g"]
    await check_file(driver, "/ab/a/f", b"/a/f")


@needs("move", FILES, "makedirs")
async def what_is_missing_is_not_moved_and_makes_nothing(driver: Any) -> None:
    await make_tree(driver, ["/to"], ["/to/f"])
    await fails(driver.move(P("/nosuch"), P("/to/g")), EntryNotFound)
    await fails(driver.move(P("/nosuch"), P("/to/f")), EntryNotFound)
    await fails(driver.move(P("/no/such"), P("/to/g")), EntryNotFound)
    assert await read_tree(driver) == ["/to/", "/to/f"]
    await check_file(driver, "/to/f", b"/to/f")


@needs("rename", FILES)
async def what_is_missing_is_not_renamed_and_replaces_nothing(driver: Any) -> None:
    await put(driver, "/f", b"f")
    await fails(driver.rename(P("/nosuch"), P("/f")), EntryNotFound)
    await fails(driver.rename(P("/nosuch"), P("/g")), EntryNotFound)
    assert await names(driver, "/") == ["f"]
    await check_file(driver, "/f", b"f")


@needs("rename", FILES)
async def a_rename_replaces_a_file_unless_told_otherwise(driver: Any) -> None:
    await put(driver, "/f", b"new")
    await put(driver, "/g", b"old one")
    await fails(driver.rename(P("/f"), P("/g"), overwrite=False), EntryExists)
    assert await names(driver, "/") == ["f", "g"]
    await check_file(driver, "/g", b"old one")
    assert await driver.rename(P("/f"), P("/g")) in (None, await driver.stat(P("/g")))
    assert await names(driver, "/") == ["g"]
    await check_file(driver, "/g", b"new")


@needs("move", FILES, "makedirs")
async def a_move_to_where_no_folder_is_loses_nothing(driver: Any) -> None:
    """A storage may refuse it, or make the folder."""
    await put(driver, "/f", b"f")
    try:
        await driver.move(P("/f"), P("/no/such/f"))
    except StorageProblem:
        assert await read_tree(driver) == ["/f"]
        await check_file(driver, "/f", b"f")
    else:
        assert await read_tree(driver) == ["/no/", "/no/such/", "/no/such/f"]
        await check_file(driver, "/no/such/f", b"f")


@needs("copy", FILES, "makedirs")
async def a_folder_is_copied_whole_or_left_to_a_task(driver: Any) -> None:
    await make_tree(driver, ["/d/sub", "/to"], ["/d/f", "/d/sub/g"])
    before = await read_tree(driver)
    try:
        await driver.copy(P("/d"), P("/to/d"))
    except NotSupported:
        assert await read_tree(driver) == before
        return
    assert await read_tree(driver) == sorted([*before, "/to/d/", "/to/d/f", "/to/d/sub/", "/to/d/sub/g"])
    await driver.remove(P("/d"))
    await check_file(driver, "/to/d/sub/g", b"/d/sub/g")


@needs("copy", FILES)
async def a_copy_is_a_file_of_its_own(driver: Any) -> None:
    await put(driver, "/f", b"first")
    await driver.copy(P("/f"), P("/g"))
    await put(driver, "/f", b"second one")
    await check_file(driver, "/g", b"first")
    await driver.copy(P("/f"), P("/g"))
    await check_file(driver, "/g", b"second one")
    assert await names(driver, "/") == ["f", "g"]


@needs("copy", "write")
async def a_copy_of_a_large_or_empty_file_has_all_its_bytes(driver: Any) -> None:
    written = bytes(range(256)) * 12_289
    await put(driver, "/large", written)
    await put(driver, "/empty", b"")
    await driver.copy(P("/large"), P("/large 2"))
    await driver.copy(P("/empty"), P("/empty 2"))
    await check_file(driver, "/large 2", written)
    await check_file(driver, "/empty 2", b"")


@needs("remove")
async def what_is_missing_is_removed_without_complaint(driver: Any) -> None:
    before = await names(driver, "/")
    for path in ("/nosuch", "/no/such", "/no/such/path"):
        await driver.remove(P(path))
    assert await names(driver, "/") == before


@needs("remove", FILES)
async def a_file_is_removed_once(driver: Any) -> None:
    await put(driver, "/f")
    await put(driver, "/f2")
    await driver.remove(P("/f"))
    await driver.remove(P("/f"))
    assert await names(driver, "/") == ["f2"]
    assert not await exists(driver, "/f")
    await put(driver, "/f", b"again")
    await check_file(driver, "/f", b"again")


@needs("remove", FILES, "makedirs")
async def a_folder_is_removed_with_all_it_holds(driver: Any) -> None:
    folders = ["/d/empty", "/d/a/b/c", "/d/x y %41", "/keep"]
    await make_tree(driver, folders, [*(f"{folder}/f{n}" for folder in folders[1:] for n in range(5)), "/d/.hidden"])
    await driver.remove(P("/d"))
    assert await read_tree(driver) == ["/keep/", *(f"/keep/f{number}" for number in range(5))]
    await driver.makedirs(P("/d"))
    assert await names(driver, "/d") == []


@needs("remove", FILES)
async def the_root_stays(driver: Any) -> None:
    await put(driver, "/f", b"f")
    await fails(driver.remove(P("/")), StorageForbidden)
    if driver.capabilities.rename:
        await fails(driver.rename(P("/"), P("/other")), StorageProblem)
    if driver.capabilities.move:
        await fails(driver.move(P("/"), P("/other")), StorageProblem)
    if driver.capabilities.remove_empty:
        await driver.remove(P("/f"))
        try:
            assert not await driver.remove_empty(P("/"))
        except StorageForbidden:
            pass
        await put(driver, "/f", b"f")
    assert await names(driver, "/") == ["f"]
    await check_file(driver, "/f", b"f")


@needs("remove_empty", FILES, "makedirs")
async def only_a_folder_that_holds_nothing_is_removed_as_empty(driver: Any) -> None:
    await make_tree(driver, ["/d/empty", "/d/full", "/d/outer/inner"], ["/d/full/f"])
    for path, gone in (("/d/full", False), ("/d/outer", False), ("/d", False), ("/d/empty", True)):
        assert await driver.remove_empty(P(path)) is gone, path
    assert await read_tree(driver, "/d") == ["/d/full/", "/d/full/f", "/d/outer/", "/d/outer/inner/"]
    assert await driver.remove_empty(P("/d/outer/inner"))
    assert await driver.remove_empty(P("/d/outer"))
    assert await names(driver, "/d") == ["full"]


@needs("remove_empty", FILES)
async def a_file_is_never_removed_as_an_empty_folder(driver: Any) -> None:
    await put(driver, "/empty file", b"")
    try:
        assert not await driver.remove_empty(P("/empty file"))
    except StorageProblem:
        pass
    assert await names(driver, "/") == ["empty file"]


@needs("remove_empty", "makedirs")
async def a_missing_folder_is_no_surprise_to_removals_of_empty_ones(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    assert await driver.remove_empty(P("/d"))
    try:
        assert isinstance(await driver.remove_empty(P("/d")), bool)
    except EntryNotFound:
        pass
    assert await names(driver, "/") == []


@needs("set_modified", FILES, "makedirs")
async def files_and_folders_get_the_times_they_are_given(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/f"])
    for path, modified in (("/d/f", 1_500_000_000.5), ("/d", 1_400_000_000.0), ("/d/f", 0.0)):
        entry = await driver.set_modified(P(path), modified)
        assert entry == await driver.stat(P(path)) and entry.modified == modified
    await fails(driver.set_modified(P("/d/none"), 1.0), EntryNotFound)
    await check_file(driver, "/d/f", b"/d/f")


@needs("makedirs")
async def folders_are_made_by_many_at_once(driver: Any) -> None:
    await asyncio.gather(*(driver.makedirs(P(f"/a/b/c/{number % 4}")) for number in range(16)))
    assert await names(driver, "/a/b/c") == ["0", "1", "2", "3"]
    await driver.makedirs(P("/"))


@needs("makedirs", FILES)
async def making_a_folder_that_is_there_keeps_what_it_holds(driver: Any) -> None:
    await make_tree(driver, ["/a/b"], ["/a/f", "/a/b/g"])
    await driver.makedirs(P("/a"))
    await driver.makedirs(P("/a/b"))
    await driver.makedirs(P("/a/b/c"))
    assert await read_tree(driver) == ["/a/", "/a/b/", "/a/b/c/", "/a/b/g", "/a/f"]


@needs("remove", FILES, "makedirs")
async def removals_at_once_agree(driver: Any) -> None:
    await make_tree(driver, ["/d"], [f"/d/{number}" for number in range(8)])
    await asyncio.gather(*(driver.remove(P(f"/d/{number % 8}")) for number in range(16)))
    assert await names(driver, "/d") == []


@needs("put_url")
async def an_address_is_stored_replaced_and_never_over_a_folder(driver: Any) -> None:
    await driver.put_url(P("/f"), "http://files.invalid/one")
    await driver.put_url(P("/f"), "https://files.invalid/two?a=b#c")
    assert (await driver.link(P("/f"))).url == "https://files.invalid/two?a=b#c"
    await fails(driver.put_url(P("/g"), "ftp://files.invalid/"), StorageProblem)
    await driver.makedirs(P("/d"))
    await fails(driver.put_url(P("/d"), "http://files.invalid/one"), EntryExists)
    await fails(driver.put_url(P("/nosuch/f"), "http://files.invalid/one"), StorageProblem)
    assert await names(driver, "/") == ["d", "f"]


@needs("link", FILES, "makedirs")
async def a_link_is_an_address_of_the_file(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/a b+c%41#.txt"])
    try:
        link = await driver.link(P("/d/a b+c%41#.txt"))
    except StorageProblem as problem:
        pytest.skip(f"{driver.name} has no link for this file: {problem}")
    assert link.url.startswith(("http://", "https://"))
    assert link.lifetime is None or link.lifetime > 0
