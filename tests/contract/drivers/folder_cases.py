"""Cases of the driver suite: folders, and what is renamed, moved, copied and removed."""

from __future__ import annotations

from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers import base
from tests.contract.drivers.actions import content, exists, fails, names, put
from tests.contract.drivers.cases import needs

P = TreePath


@needs("makedirs")
async def folders_are_made_with_their_parents(driver: Any) -> None:
    await driver.makedirs(P("/a/b/c"))
    await driver.makedirs(P("/a/b/c"))
    assert await names(driver, "/") == ["a"]
    assert await names(driver, "/a/b") == ["c"]
    assert await names(driver, "/a/b/c") == []
    assert (await driver.stat(P("/a/b"))).is_dir


@needs("makedirs", "write")
async def a_folder_does_not_replace_a_file(driver: Any) -> None:
    await put(driver, "/f")
    await fails(driver.makedirs(P("/f")), EntryExists)
    await fails(driver.makedirs(P("/f/below")), (EntryExists, EntryNotFound))
    assert await content(driver, "/f") == b"x"


@needs("rename", "write", "makedirs")
async def files_and_folders_are_renamed(driver: Any) -> None:
    await driver.makedirs(P("/d/sub"))
    await put(driver, "/d/f", b"1")
    await put(driver, "/d/sub/g", b"2")
    await driver.rename(P("/d/f"), P("/d/h"))
    await driver.rename(P("/d"), P("/e"))
    assert await names(driver, "/") == ["e"]
    assert await names(driver, "/e") == ["h", "sub"]
    assert await content(driver, "/e/sub/g") == b"2"
    await fails(driver.rename(P("/nosuch"), P("/other")), EntryNotFound)


@needs("move", "write", "makedirs")
async def files_and_folders_are_moved(driver: Any) -> None:
    for folder in ("/from/deep", "/to"):
        await driver.makedirs(P(folder))
    await put(driver, "/from/f", b"1")
    await put(driver, "/from/deep/g", b"2")
    await driver.move(P("/from/f"), P("/to/f"))
    await driver.move(P("/from/deep"), P("/to/deep"))
    assert await names(driver, "/to") == ["deep", "f"]
    assert await names(driver, "/from") == []
    assert await content(driver, "/to/deep/g") == b"2"
    await fails(driver.move(P("/to"), P("/to/deep/to")), StorageProblem)
    assert await content(driver, "/to/deep/g") == b"2"


@needs("copy", "write", "makedirs")
async def files_are_copied(driver: Any) -> None:
    await driver.makedirs(P("/to"))
    await put(driver, "/f", b"1")
    await driver.copy(P("/f"), P("/to/f"))
    await put(driver, "/f", b"2")
    assert await content(driver, "/to/f") == b"1"
    await fails(driver.copy(P("/nosuch"), P("/to/x")), EntryNotFound)


@needs("remove", "write", "makedirs")
async def removing_takes_all_below_and_nothing_else(driver: Any) -> None:
    await driver.makedirs(P("/d/sub"))
    for path in ("/d/f", "/d/sub/g", "/dd", "/keep"):
        await put(driver, path)
    await driver.remove(P("/d"))
    assert await names(driver, "/") == ["dd", "keep"]
    await driver.remove(P("/dd"))
    assert not await exists(driver, "/dd")
    assert await content(driver, "/keep") == b"x"


@needs("write", "makedirs", "remove")
async def a_folder_stays_when_its_last_file_goes(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    await put(driver, "/d/f")
    await driver.remove(P("/d/f"))
    assert await names(driver, "/d") == []
    assert (await driver.stat(P("/d"))).is_dir


@needs("write", "makedirs")
async def a_file_is_no_folder_and_a_folder_no_file(driver: Any) -> None:
    await put(driver, "/f")
    await driver.makedirs(P("/d"))
    await fails(base.list_all(driver, P("/f")), (NotSupported, EntryNotFound))
    await fails(driver.read(P("/d")), (NotSupported, EntryNotFound))
