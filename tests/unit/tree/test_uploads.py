"""Uploads: refused before the body is read, stored whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable

import pytest

from mangrove.configuration.values import Settings
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryExists,
    NameConflict,
    Problem,
    StorageProblem,
    UploadRefused,
)
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.tree.operations import transfers, uploads
from mangrove.tree.operations.plans import TransferRequest
from tests.unit.tree import builders
from tests.unit.tree.checking_driver import CheckingDriver
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv, find_files, stream

CONTENT = b"some bytes"


def write(tree: TreeEnv, path: str, body: AsyncIterator[bytes], overwrite: bool = True, **hashes: str) -> None:
    access = tree.access(path, Right.WRITE)
    tree.run(uploads.write(access, body, Upload(None, 0.0), overwrite=overwrite, hashes=hashes))


async def untouched() -> AsyncIterator[bytes]:
    """A body that must not be read."""
    raise AssertionError("the body was read")
    yield b""


def test_a_body_is_stored_in_folders_that_are_made(tree: TreeEnv) -> None:
    disk = tree.mount_disk()
    assert list(tree.run(tree.access("/disk").list_folder()).entries) == []
    write(tree, "/disk/a/b/file", stream(CONTENT[:4], CONTENT[4:]))
    assert (disk / "a/b/file").read_bytes() == CONTENT
    assert [entry.name for entry in tree.run(tree.access("/disk").list_folder()).entries] == ["a"]


def test_a_file_is_replaced_only_when_it_may_be(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "file", "folder/x")
    with pytest.raises(NameConflict):
        write(tree, "/disk/file", untouched(), overwrite=False)
    write(tree, "/disk/file", stream(CONTENT))
    assert (disk / "file").read_bytes() == CONTENT
    with pytest.raises(EntryExists):
        write(tree, "/disk/folder", untouched())
    with pytest.raises(EntryExists, match="failed to make dir"):
        write(tree, "/disk/file/x", untouched())


@pytest.mark.parametrize("right", [right for right in Right if right is not Right.WRITE])
def test_the_route_must_have_declared_the_right_to_write(tree: TreeEnv, right: Right) -> None:
    tree.mount_disk()
    with pytest.raises(AccessDenied):
        tree.run(uploads.prepare(tree.access("/disk/x", right), True))


def test_without_the_right_only_an_open_folder_takes_uploads(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "open/", "open/below/", "closed/")
    tree.add_rule("/disk/open", write=True)
    tree.add_rule("/disk/closed", write=True, write_users=[0])
    tree.change_user(ALL_RIGHTS & ~Right.WRITE)
    for path in ("/disk/x", "/disk/open/below/x", "/disk/closed/x"):
        with pytest.raises(AccessDenied):
            write(tree, path, untouched())
    write(tree, "/disk/open/x", stream(CONTENT))
    assert find_files(disk) == {"open/x", "open/below/", "closed/"}


def test_a_missing_folder_is_not_made_where_a_rule_denies_it(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "d/")
    tree.add_rule("/disk/d", write_users=[0])
    with pytest.raises(AccessDenied):
        write(tree, "/disk/d/new/x", untouched())
    assert find_files(disk) == {"d/"}


@pytest.mark.parametrize(
    ("path", "problem", "text"),
    [
        ("/disk/hidden", NameConflict, "file exists"), ("/disk/a\x01b", BadRequest, "control character"),
        ("/disk/.DS_Store", AccessDenied, "system file"), ("/disk/._x", AccessDenied, "system file"),
        ("/none/x", StorageProblem, "failed get storage"), ("/disk/mounted", StorageProblem, "storage not found"),
        ("/disk", StorageProblem, "storage not found"),
    ],
)  # fmt: skip
def test_what_can_be_refused_is_refused_before_the_body_is_read(
    tree: TreeEnv, path: str, problem: type[Problem], text: str
) -> None:
    disk = tree.mount_disk("/disk", "hidden")
    tree.mount_disk("/disk/mounted/deep")
    tree.add_rule("/disk", hide="^hidden$")
    tree.set(ignore_system_files="true")
    with pytest.raises(problem, match=text):
        write(tree, path, untouched())
    assert find_files(disk) == {"hidden"}


def test_a_storage_without_uploads_refuses_them_in_the_words_of_each_route(tree: TreeEnv) -> None:
    tree.mount("/links", "UrlTree", options={"url_structure": "a:https://example.org/a"})
    with pytest.raises(StorageProblem, match="upload not supported"):
        write(tree, "/links/x", untouched())
    with pytest.raises(UploadRefused):
        tree.run(uploads.refuse_form(tree.access("/links/x", Right.WRITE)))
    with pytest.raises(BadRequest, match="storage not found"):
        tree.run(uploads.refuse_form(tree.access("/none/x", Right.WRITE)))
    tree.mount_disk()
    tree.run(uploads.refuse_form(tree.access("/disk/x", Right.WRITE)))


def test_a_body_must_fit_its_hashes(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "file")
    right = {"md5": hashlib.md5(CONTENT).hexdigest().upper(), "sha256": hashlib.sha256(CONTENT).hexdigest()}
    for name in ("file", "new"):
        with pytest.raises(BadRequest, match="X-File-Sha256"):
            write(tree, f"/disk/{name}", stream(CONTENT), **right | {"sha256": "0" * 64})
    assert find_files(disk) == {"file"}
    assert (disk / "file").read_text() == "file"
    write(tree, "/disk/file", stream(CONTENT), **right)
    assert (disk / "file").read_bytes() == CONTENT


def test_a_body_that_is_cut_leaves_the_old_file(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "file")

    async def cut() -> AsyncIterator[bytes]:
        yield CONTENT
        raise BadRequest("the connection was cut")

    with pytest.raises(BadRequest):
        write(tree, "/disk/file", cut())
    assert find_files(disk) == {"file"}
    assert (disk / "file").read_text() == "file"


LOSE_RIGHT: dict[str, Callable[[TreeEnv], object]] = {
    "no right": lambda tree: tree.change_user(ALL_RIGHTS & ~Right.WRITE),
    "disabled": lambda tree: tree.change_user(disabled=True),
    "other base path": lambda tree: tree.change_user(base_path="/disk/d"),
    "rule": lambda tree: tree.add_rule("/disk", write_users=[0], write_users_sub=True),
    "password": lambda tree: tree.add_rule("/disk", password="secret", p_sub=True),
}


@pytest.mark.parametrize("loss", LOSE_RIGHT)
def test_right_that_is_lost_while_a_body_arrives_leaves_the_old_file(
    tree: TreeEnv, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "RIGHTS_FRESH_SECONDS", -1.0)  # as after a slow body
    disk = tree.mount_disk("/disk", "file", "d/")

    async def read_body(change: Callable[[TreeEnv], object]) -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.to_thread(change, tree)
        yield b"rest"

    write(tree, "/disk/allowed", read_body(lambda _: None))
    with pytest.raises(AccessDenied):
        write(tree, "/disk/file", read_body(LOSE_RIGHT[loss]))
    assert find_files(disk) == {"allowed", "file", "d/"}
    assert (disk / "file").read_text() == "file"


@pytest.mark.parametrize(("durability", "durable"), [("process", False), ("file", True)])
def test_stored_or_copied_files_are_durable_by_setting(durability: str, durable: bool) -> None:
    driver = CheckingDriver("/d", refuses=True)
    settings = Settings({"durability": durability})

    async def work() -> None:
        target = builders.access(driver, "/file", Right.WRITE, settings=settings)
        await uploads.write(target, stream(CONTENT), Upload(None, 0.0), hashes={})
        ends = (builders.access(driver, path, Right.COPY, settings=settings) for path in ("/", "/d"))
        await transfers.transfer(TransferRequest(Right.COPY, *ends, ["file"]))

    asyncio.run(work())
    assert driver.durable == [durable, durable]


def test_a_file_that_appears_meanwhile_is_not_replaced(tree: TreeEnv) -> None:
    disk = tree.mount_disk()

    async def slow() -> AsyncIterator[bytes]:
        yield CONTENT
        (disk / "file").write_text("another")

    with pytest.raises(NameConflict):
        write(tree, "/disk/file", slow(), overwrite=False)
    assert (disk / "file").read_text() == "another"
