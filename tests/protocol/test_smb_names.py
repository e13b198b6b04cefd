"""SMB on Samba: letters of both cases, links that the server follows, files that are replaced while they are read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from mangrove.drivers.smb import messages
from tests.contract.drivers.actions import body, content, fails, names, put
from tests.contract.drivers.test_suite import start_driver
from tests.servers import smb

P = TreePath
pytestmark = [pytest.mark.xdist_group("samba"), pytest.mark.skipif(not smb.CAN_RUN, reason=smb.REASON)]


@pytest.fixture(scope="module")
def samba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[smb.Samba]:
    with smb.samba(tmp_path_factory.mktemp("samba")) as server:
        yield server


@pytest.fixture
def root(samba: smb.Samba) -> Path:
    folder = samba.folder / uuid4().hex
    folder.mkdir()
    return folder


def test_a_file_and_a_folder_change_the_case_of_their_names(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        driver: base.Driver = await start_driver("SMB", samba.options(root.name))
        await put(driver, "/a")
        await driver.makedirs(P("/d/e"))
        await driver.rename(P("/a"), P("/A"))
        await driver.rename(P("/d"), P("/D"), overwrite=False)
        assert await names(driver, "/") == ["A", "D"]
        await driver.rename(P("/A"), P("/a"), overwrite=False)
        assert await names(driver, "/") == ["D", "a"]
        assert await names(driver, "/D") == ["e"]
        await driver.stop()

    asyncio.run(used())


@pytest.mark.parametrize("tells_names", [True, False])
def test_a_path_in_other_letters_leads_nowhere(
    samba: smb.Samba, root: Path, tells_names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules about a path apply to the name that a listing shows, so that no other name may lead to the file."""
    if not tells_names:  # as servers of before 2018
        unknown = partial(messages.query_info, kind=1, info=200, length=600)
        monkeypatch.setattr(messages, "query_name", unknown)

    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name.upper()))
        await put(driver, "/Private", b"private")
        await driver.makedirs(P("/Folder"))  # type: ignore[attr-defined]
        await put(driver, "/Folder/f")
        for path in ("/private", "/FOLDER", "/folder/f", "/Folder/F"):
            await fails(driver.stat(P(path)), EntryNotFound)
        await fails(driver.read(P("/private")), EntryNotFound)
        await fails(base.list_all(driver, P("/folder")), EntryNotFound)
        for target in ("/private", "/PRIVATE"):
            await fails(put(driver, target, b"new"), EntryExists)
        await fails(put(driver, "/folder/g"), EntryNotFound)
        await fails(driver.rename(P("/private"), P("/other")), EntryNotFound)  # type: ignore[attr-defined]
        await fails(driver.move(P("/Private"), P("/folder/p")), EntryNotFound)  # type: ignore[attr-defined]
        await driver.remove(P("/private"))  # type: ignore[attr-defined]
        await driver.remove(P("/FOLDER"))  # type: ignore[attr-defined]
        assert (await names(driver, "/"), await names(driver, "/Folder")) == (["Folder", "Private"], ["f"])
        await driver.stop()

    asyncio.run(used())


def test_a_name_that_smb_cannot_hold_is_shown_by_another_one(samba: smb.Samba, root: Path) -> None:
    (root / "a?b.txt").write_bytes(b"odd")

    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name))
        (name,) = await names(driver, "/")
        assert await content(driver, f"/{name}") == b"odd"
        await driver.remove(P(f"/{name}"))  # type: ignore[attr-defined]
        await driver.stop()

    asyncio.run(used())
    assert os.listdir(root) == []


@pytest.fixture
def linked(root: Path) -> Path:
    """A tree with links to a folder, to a file, to nothing and to the outside of the storage; beside it what they lead
    to."""
    for folder in ("storage/tree/sub", "storage/real", "outside"):
        (root / folder).mkdir(parents=True)
    for file in ("storage/real/f", "outside/secret", "storage/tree/sub/g"):
        (root / file).write_bytes(b"x")
    for name, target in (("folder", "../real"), ("file", "../real/f"), ("none", "no"), ("out", "../../outside")):
        (root / "storage/tree" / name).symlink_to(target)
    return root


def test_links_of_the_server_lead_to_what_lies_in_the_storage(samba: smb.Samba, linked: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(f"{linked.name}/storage"))
        assert "none" not in await names(driver, "/tree")
        await fails(driver.stat(P("/tree/none")), EntryNotFound)
        assert await content(driver, "/tree/file") == b"x"
        assert await names(driver, "/tree/folder") == ["f"]
        assert await content(driver, "/tree/folder/f") == b"x"
        await fails(driver.read(P("/tree/out/secret")), EntryNotFound)
        await driver.stop()

    asyncio.run(used())


def test_nothing_behind_a_link_of_the_server_is_removed(samba: smb.Samba, linked: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(f"{linked.name}/storage"))
        await driver.remove(P("/tree/file"))  # type: ignore[attr-defined]
        for path in ("/tree", "/tree/folder", "/tree/folder/f"):
            await fails(driver.remove(P(path)), StorageProblem)  # type: ignore[attr-defined]
        assert await names(driver, "/real") == ["f"]
        await driver.stop()

    asyncio.run(used())
    assert (linked / "outside/secret").exists()
    assert not (linked / "storage/tree/file").is_symlink()


def test_a_file_is_replaced_and_removed_while_it_is_read(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name))
        old = b"a" * 3_000_000
        await put(driver, "/f", old)
        reading = await driver.read(P("/f"))
        first = await anext(aiter(reading))
        await put(driver, "/f", b"new")
        assert first + b"".join([block async for block in reading]) == old
        assert await content(driver, "/f") == b"new"
        reading = await driver.read(P("/f"))
        await driver.remove(P("/f"))  # type: ignore[attr-defined]
        assert await names(driver, "/") == []
        await put(driver, "/f", b"newer")
        assert b"".join([block async for block in reading]) == b"new"
        assert await names(driver, "/") == ["f"]
        await driver.stop()

    asyncio.run(used())


def test_of_two_storages_on_one_server_only_one_takes_a_free_name(samba: smb.Samba, root: Path) -> None:
    """Each has a process of its own at the server, and what one of those decides the other does not see."""

    async def used() -> None:
        drivers = [await start_driver("SMB", samba.options(root.name)) for _ in range(2)]
        for verb in ("write", "move"):
            await asyncio.gather(*(put(drivers[0], f"/{number}") for number in range(20)))
            works = []
            for number in range(20):
                driver: Any = drivers[number % 2]
                if verb == "write":
                    works.append(driver.write(P(f"/{verb}"), body(b"x"), Upload(1, 1.7e9, overwrite=False)))
                else:
                    works.append(driver.move(P(f"/{number}"), P(f"/{verb}"), overwrite=False))
            results = await asyncio.gather(*works, return_exceptions=True)
            assert [isinstance(result, EntryExists) for result in results].count(True) == 19, results
        assert len(await names(drivers[0], "/")) == 21
        for driver in drivers:
            await driver.stop()

    asyncio.run(used())


def test_files_that_may_only_be_read_are_removed(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name))
        await driver.makedirs(P("/d"))  # type: ignore[attr-defined]
        for path in ("/f", "/d/g"):
            await put(driver, path)
            (root / path[1:]).chmod(0o444)
        await driver.remove(P("/f"))  # type: ignore[attr-defined]
        await driver.remove(P("/d"))  # type: ignore[attr-defined]
        assert await names(driver, "/") == []
        await driver.stop()

    asyncio.run(used())


def test_times_are_set_and_a_file_that_changed_is_not_removed(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name))
        stored = await driver.write(P("/f"), body(b"x"), Upload(1, 1_600_000_000.5))  # type: ignore[attr-defined]
        assert stored == await driver.stat(P("/f"))
        assert (stored.modified, (root / "f").stat().st_mtime) == (1_600_000_000.5, 1_600_000_000.5)
        (root / "f").write_bytes(b"y")
        await fails(driver.remove_unchanged(P("/f"), stored), EntryChanged)  # type: ignore[attr-defined]
        assert (root / "f").read_bytes() == b"y"
        await driver.stop()

    asyncio.run(used())
