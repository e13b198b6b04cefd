"""Cases of the driver suite: what goes into the folder of the trash, and comes back."""

from __future__ import annotations

import time
from typing import Any

from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import TRASH, TRASH_FOLDER
from tests.contract.drivers.actions import check_file, exists, fails, make_tree, names, put, read_tree
from tests.contract.drivers.cases import needs

P = TreePath
ENTRY_FOLDER = TRASH_FOLDER / "0123456789abcdef"


@needs("set_aside", "write", "makedirs", "remove")
async def a_folder_goes_into_the_trash_and_back_with_all_it_holds(driver: Any) -> None:
    await make_tree(driver, ["/d/empty", "/d/sub", "/e"], ["/d/f", "/d/sub/g", "/e/h"])
    await driver.makedirs(ENTRY_FOLDER)
    assert not await driver.set_aside(P("/d"), ENTRY_FOLDER / "d")
    assert await read_tree(driver) == ["/e/", "/e/h"]
    await check_file(driver, str(ENTRY_FOLDER / "d/sub/g"), b"/d/sub/g")
    await driver.move(ENTRY_FOLDER / "d", P("/e/back"), overwrite=False)
    assert await read_tree(driver) == sorted(
        ["/e/", "/e/h", "/e/back/", "/e/back/empty/", "/e/back/f", "/e/back/sub/", "/e/back/sub/g"]
    )
    await check_file(driver, "/e/back/f", b"/d/f")


@needs("set_aside", "write", "makedirs", "remove")
async def no_listing_shows_the_folder_of_the_trash(driver: Any) -> None:
    await put(driver, "/f", b"f")
    await driver.makedirs(ENTRY_FOLDER)
    await driver.set_aside(P("/f"), ENTRY_FOLDER / "f")
    assert await names(driver, "/") == []
    assert TRASH not in await names(driver, "/")
    await driver.remove(ENTRY_FOLDER)
    assert not await exists(driver, str(ENTRY_FOLDER / "f"))


@needs("set_aside", "write", "makedirs", "remove")
async def a_file_that_is_kept_outlives_the_one_that_replaces_it(driver: Any) -> None:
    await put(driver, "/f", b"old")
    await driver.makedirs(ENTRY_FOLDER)
    has_both_paths = await driver.set_aside(P("/f"), ENTRY_FOLDER / "f", keep=True)
    assert await exists(driver, "/f") == has_both_paths
    await driver.write(P("/f"), stream(b"newer"), Upload(5, time.time()))
    await check_file(driver, str(ENTRY_FOLDER / "f"), b"old")
    await check_file(driver, "/f", b"newer")


@needs("set_aside", "write", "makedirs", "remove")
async def what_is_missing_does_not_go_into_the_trash(driver: Any) -> None:
    await driver.makedirs(ENTRY_FOLDER)
    await fails(driver.set_aside(P("/missing"), ENTRY_FOLDER / "missing"), EntryNotFound)
    await fails(driver.set_aside(P("/missing"), ENTRY_FOLDER / "missing", keep=True), EntryNotFound)


@needs("set_many_aside", "write", "makedirs", "remove")
async def many_files_have_second_paths_until_they_are_replaced(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/f", "/d/g"])
    await driver.makedirs(TRASH_FOLDER)
    paths = {P("/f"): TRASH_FOLDER / "1/f", P("/d/g"): TRASH_FOLDER / "2/g", P("/no"): TRASH_FOLDER / "3/no"}
    has_both, also_has_both, missing, folder = await driver.set_many_aside(
        [*paths.items(), (P("/d"), TRASH_FOLDER / "4/d")]
    )
    assert (has_both, also_has_both, folder) == (True, True, False) and isinstance(missing, EntryNotFound)
    assert await read_tree(driver) == ["/d/", "/d/g", "/f"]
    await driver.write(P("/f"), stream(b"newer"), Upload(5, time.time()))
    shown, former, missing = await driver.stat_many([P("/f"), paths[P("/f")], TRASH_FOLDER / "3"])
    assert (shown, former.size) == (await driver.stat(P("/f")), 2) and isinstance(missing, EntryNotFound)
    await check_file(driver, str(paths[P("/f")]), b"/f")
    await check_file(driver, str(paths[P("/d/g")]), b"/d/g")


async def keep_versions(driver: Any) -> None:
    """Have the storage keep versions from now on."""
    await driver.call("put_bucket_versioning", VersioningConfiguration={"Status": "Enabled"})
    assert await driver.has_versions()


@needs("versions", "move", "write", "makedirs", "remove")
async def a_bucket_shows_the_folder_of_the_trash_to_nobody(driver: Any) -> None:
    await make_tree(driver, ["/d"], ["/d/f", "/g"])
    await driver.makedirs(ENTRY_FOLDER)
    await driver.move(P("/d/f"), ENTRY_FOLDER / "f")
    await check_file(driver, str(ENTRY_FOLDER / "f"), b"/d/f")
    assert await names(driver, "/") == ["d", "g"]
    assert [entry.name for entry in (await driver.list_page(P("/"))).entries] == ["d", "g"]
    assert [entry.name for entry in (await driver.list_range(P("/"), "", 10)).entries] == ["d", "g"]


@needs("versions", "write")
async def versions_of_a_file_are_listed_and_come_back(driver: Any) -> None:
    await keep_versions(driver)
    for text in (b"first", b"second!", b"third"):
        await put(driver, "/f", text)
        await put(driver, "/f2", text)
    latest, second, first = await driver.list_versions(P("/f"))
    assert [version.size for version in (latest, second, first)] == [5, 7, 5]
    assert [version.is_latest for version in (latest, second, first)] == [True, False, False]
    view = driver.view_version(P("/f"), second.id)
    await check_file(view, "/f", b"second!")
    await check_file(driver, "/f", b"third")
    await driver.restore_version(P("/f"), first.id)
    await check_file(driver, "/f", b"first")
    assert len(await driver.list_versions(P("/f"))) == 4


@needs("versions", "write", "remove")
async def what_was_removed_comes_back_from_its_versions(driver: Any) -> None:
    await keep_versions(driver)
    await make_tree(driver, ["/d", "/e"], ["/d/f", "/d/g", "/e/h"])
    assert not await driver.find_removed(P("/d"), 0)
    since = time.time()
    await driver.remove(P("/d"))
    assert await driver.find_removed(P("/d"), since)
    await driver.restore_removed(P("/d"), P("/d"), since)
    assert await read_tree(driver) == ["/d/", "/d/f", "/d/g", "/e/", "/e/h"]
    await fails(driver.restore_removed(P("/d"), P("/d"), since), (EntryExists, EntryNotFound))
    await driver.remove(P("/d"))
    await make_tree(driver, ["/d"], ["/d/new"])
    await driver.restore_removed(P("/d"), P("/back"), since)
    assert await read_tree(driver) == ["/back/", "/back/f", "/back/g", "/d/", "/d/new", "/e/", "/e/h"]
    await check_file(driver, "/back/g", b"/d/g")


@needs("versions", "write", "remove")
async def what_was_removed_and_purged_does_not_come_back(driver: Any) -> None:
    await keep_versions(driver)
    since = time.time()
    await put(driver, "/f", b"f")
    await driver.remove(P("/f"))
    await driver.purge_removed(P("/f"), since)
    assert await driver.list_versions(P("/f")) == []
    await fails(driver.restore_removed(P("/f"), P("/f"), since), EntryNotFound)
