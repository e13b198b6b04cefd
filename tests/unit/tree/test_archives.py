"""Archives looked into: what is in them, who may see it, and the bounds in time and number."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
import pytest

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core import limits as core_limits
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    AccessDenied,
    ArchiveTooLarge,
    BrokenArchive,
    EntryNotFound,
    NotAFile,
    NotSupported,
    Problem,
    TooMany,
)
from mangrove.drivers.base import DriverContext, Entry
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Right
from mangrove.tree.listing import browse
from mangrove.tree.listing.browse import PageRequest
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import archives, links
from mangrove.tree.operations.downloads import Download
from mangrove.tree.operations.links import Purpose
from tests.unit.archives.packing import FILES, tarred, zipped
from tests.unit.tree import builders
from tests.unit.tree.builders import mount
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv
from tests.unit.tree.memory_folders import MemoryFolders


async def file(folder: Path, name: str) -> Download:
    driver = Local(Local.Options(root_folder_path=str(folder)), DriverContext())
    await driver.start()
    path = TreePath(f"/{name}")
    return Download(path, StoragePath(driver, path, mount("/")), Settings({}))


def test_an_archive_in_which_nothing_is_found_for_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.tgz").write_bytes(gzip.compress(tarred({"zeros": bytes(50_000_000), "late": b"1"}), 1))
    monkeypatch.setattr(archives, "LOOKUP_SECONDS", 0.01)

    async def late() -> None:
        with pytest.raises(ArchiveTooLarge, match="takes too long"):
            await archives.open_member(await file(tmp_path, "x.tgz"), "late", "", "me")

    asyncio.run(late())


def test_slow_readers_leave_room_for_others_until_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.zip").write_bytes(zipped(FILES))
    monkeypatch.setattr(core_limits, "ARCHIVE_MEMBER_WAIT_SECONDS", 0.01)
    most = core_limits.ARCHIVE_MEMBERS_PER_CALLER

    async def crowd() -> None:
        download = await file(tmp_path, "x.zip")
        slow = [await archives.open_member(download, "big.bin", "", "slow") for _ in range(most)]
        with pytest.raises(TooMany, match="at once"):
            await archives.open_member(download, "a/b.txt", "", "slow")
        other = await archives.open_member(download, "a/b.txt", "", "other")
        assert b"".join([block async for block in other]) == FILES["a/b.txt"]
        others = range(most, core_limits.ARCHIVE_MEMBER_CONCURRENCY)
        slow += [await archives.open_member(download, "big.bin", "", f"{number // most}") for number in others]
        with pytest.raises(TooMany, match="at once"):
            await archives.open_member(download, "a/b.txt", "", "other")
        await slow.pop().aclose()
        await (await archives.open_member(download, "empty", "", "other")).aclose()
        for body in slow:
            await body.aclose()

    with runtime.use(runtime.Runtime()):
        asyncio.run(crowd())


def list_folder(tree: TreeEnv, path: str, inside: str, part: PageRequest | None = None) -> tuple[list[str], int]:
    access = tree.access(path, Right.READ_ARCHIVES)
    answer = tree.run(browse.list_archive(access, "", inside, part or PageRequest(), "me"))
    return [row["name"] for row in orjson.loads(orjson.dumps(answer["content"]))], answer["total"]


def test_the_tree_of_an_archive_is_shown_in_the_order_of_its_storage(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", order_by="name", extract_folder="front", enable_sign=True)
    tree.set(token="key")
    (disk / "x.zip").write_bytes(zipped(FILES, comment=b"hello"))
    answer = tree.run(archives.get_meta(tree.access("/disk/x.zip", Right.READ_ARCHIVES), "", "https://here", "me"))
    assert [row["name"] for row in answer["content"]] == ["a", "d", "big.bin", "empty"]
    assert [row["name"] for row in answer["content"][0]["children"]] == ["b.txt"]
    assert (answer["comment"], answer["encrypted"], answer["sort"]["order_by"]) == ("hello", False, "name")
    assert answer["raw_url"] == "https://here/ae/disk/x.zip"
    links.verify(configuration.cached().settings, "/disk/x.zip", answer["sign"], Purpose.ARCHIVE)


def test_one_folder_of_an_archive_is_listed_page_by_page(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", order_by="name")
    (disk / "x.zip").write_bytes(zipped(FILES))
    assert list_folder(tree, "/disk/x.zip", "/") == (["a", "big.bin", "d", "empty"], 4)
    assert list_folder(tree, "/disk/x.zip", "", PageRequest(2, 3)) == (["empty"], 4)
    assert list_folder(tree, "/disk/x.zip", "d/e") == (["ü.txt"], 1)
    with pytest.raises(
        EntryNotFound, match=r"^failed to list archive \[/x.zip\]/none: object not found: object not found$"
    ):
        list_folder(tree, "/disk/x.zip", "none")


def test_an_archive_takes_the_right_and_the_rules_of_its_path(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "d/")
    (disk / "d/x.zip").write_bytes(zipped(FILES))
    with pytest.raises(AccessDenied):
        tree.run(browse.list_archive(tree.access("/disk/d/x.zip", Right.READ), "", "/", PageRequest(), "me"))
    tree.add_rule("/disk/d", password="secret", p_sub=True)
    with pytest.raises(AccessDenied):
        list_folder(tree, "/disk/d/x.zip", "/")
    access = tree.access("/disk/d/x.zip", Right.READ_ARCHIVES, "secret")
    assert tree.run(browse.list_archive(access, "", "/", PageRequest(), "me"))["total"] == 4
    tree.change_user(ALL_RIGHTS & ~Right.READ_ARCHIVES)
    with pytest.raises(AccessDenied):
        tree.run(
            browse.list_archive(
                tree.access("/disk/d/x.zip", Right.READ_ARCHIVES, "secret"), "", "/", PageRequest(), "me"
            )
        )


@pytest.mark.parametrize(
    ("name", "problem", "text"),
    [
        ("folder.zip", NotAFile, "not a file"), ("text.txt", NotSupported, "does not have an extension"),
        ("broken.zip", BrokenArchive, ""), ("none.zip", EntryNotFound, "object not found"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_refused_in_the_words_of_each_verb(
    tree: TreeEnv, name: str, problem: type[Problem], text: str
) -> None:
    tree.mount_disk("/disk", "folder.zip/x", "text.txt", "broken.zip")
    access = tree.access(f"/disk/{name}", Right.READ_ARCHIVES)
    with pytest.raises(problem, match=rf"^failed to get /{name} archive met: .*{text}"):
        tree.run(archives.get_meta(access, "", "", "me"))
    with pytest.raises(problem, match=rf"^failed to list archive \[/{name}\]/: .*{text}"):
        list_folder(tree, f"/disk/{name}", "/")


class UnknownSizes(MemoryFolders):
    """Does not know how large its files are."""

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        yield [Entry(name, None, 1.0, False) for name in self.folders[path]]


def test_an_archive_of_unknown_size_is_not_looked_into() -> None:
    driver = UnknownSizes()
    driver.folders["/"] = ["x.zip"]
    access = builders.access(driver, "/x.zip", Right.READ_ARCHIVES)
    with runtime.use(runtime.Runtime()), pytest.raises(NotSupported, match="size of the archive is not known"):
        asyncio.run(browse.list_archive(access, "", "/", PageRequest(), "me"))


def test_a_file_that_is_not_in_the_archive_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped(FILES))

    async def open_none() -> None:
        for inside in ("none", "a", "/"):
            with pytest.raises(EntryNotFound, match=r"^failed link: object not found$"):
                await archives.open_member(await file(tmp_path, "x.zip"), inside, "", "me")

    with runtime.use(runtime.Runtime()):
        asyncio.run(open_none())


def test_a_caller_looks_into_few_archives_at_once_and_others_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_limits, "ARCHIVE_LOOKUP_WAIT_SECONDS", 0.01)

    async def look() -> None:
        lookups = core_limits.Limits().archive_lookups
        async with AsyncExitStack() as held:
            for _ in range(core_limits.ARCHIVE_LOOKUPS_PER_CALLER):
                await held.enter_async_context(lookups.hold("user 1"))
            with pytest.raises(TooMany):
                await held.enter_async_context(lookups.hold("user 1"))
            await held.enter_async_context(lookups.hold("user 2"))
        async with lookups.hold("user 1"):
            pass

    asyncio.run(look())
