"""Archives that are made while they are sent, over real folders that change meanwhile."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from mangrove.core.paths import TRASH
from mangrove.core.problems import EntryNotFound, TooLarge, Unauthorized, Unreachable
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import packing
from mangrove.tree.operations.zip_streams import ZipStream, make_plan
from tests.unit.tree.environment import TreeEnv

LARGE = random.Random(1).randbytes(5 << 20)


def pack(tree: TreeEnv, *names: str, change: Callable[[int], None] = lambda count: None) -> dict[str, bytes]:
    """Pack `/disk`. `change` is called before each block, with the bytes so far."""

    async def collect() -> bytes:
        root = await _access(tree)
        plan = await make_plan(root, names)
        content = bytearray()

        async def authorize() -> PathAccess:
            return await _access(tree)

        change(0)
        async for block in ZipStream(plan, authorize).stream():
            content += block
            change(len(content))
        assert plan.length in (None, len(content))
        return bytes(content)

    with ZipFile(BytesIO(tree.run(collect()))) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


async def _access(tree: TreeEnv) -> PathAccess:
    from mangrove.identity.rights import Caller, Right
    from mangrove.tree import access

    return await access.at(Caller(tree.user, Right.READ), "/disk")


@pytest.fixture
def root(tree: TreeEnv) -> Path:
    """A folder with small files, a large one and one behind it."""
    root = tree.mount_disk("/disk", "a.txt", "d/b.txt", "z.txt", "hollow/")
    (root / "m.bin").write_bytes(LARGE)
    return root


ALL = ["a.txt", "d/", "d/b.txt", "hollow/", "m.bin", "z.txt"]


def test_folder_is_packed_with_all_below_it(tree: TreeEnv, root: Path) -> None:
    (root / TRASH).mkdir()
    (root / TRASH / "old.txt").write_text("old")
    files = pack(tree)
    assert sorted(files) == ALL
    assert (files["m.bin"], files["d/b.txt"]) == (LARGE, b"d/b.txt")


def test_link_to_a_folder_is_not_followed(tree: TreeEnv, root: Path) -> None:
    os.symlink("..", root / "d" / "up")
    assert set(pack(tree)) - set(ALL) == {"d/up.error.txt"}


@pytest.mark.parametrize("name", ["a.txt", "z.txt", "empty.txt"])
def test_small_file_that_is_gone_is_replaced_by_a_text(tree: TreeEnv, root: Path, name: str) -> None:
    (root / "empty.txt").touch()

    def change(count: int) -> None:
        (root / name).unlink(missing_ok=True)

    files = pack(tree, change=change)
    assert files[f"{name}.error.txt"].startswith(b"object")
    assert set(files) == {*ALL, "empty.txt", f"{name}.error.txt"} - {name}


@pytest.mark.parametrize("at", [0, 1 << 20, 4 << 20])
@pytest.mark.parametrize("size", [0, 100, len(LARGE) - 1, len(LARGE) + 1])
def test_large_file_that_changes_is_replaced_by_a_text(tree: TreeEnv, root: Path, at: int, size: int) -> None:
    """The bytes that were sent belong to no entry, and the next files are whole."""
    is_changed = False

    def change(count: int) -> None:
        nonlocal is_changed
        if count >= at and not is_changed:
            is_changed = True
            os.truncate(root / "m.bin", size)

    files = pack(tree, change=change)
    assert files["m.bin.error.txt"] == b"the file changed meanwhile\n"
    assert "m.bin" not in files
    assert files["z.txt"] == b"z.txt"


def test_file_is_left_out_when_a_rule_locks_it_meanwhile(tree: TreeEnv, root: Path) -> None:
    def change(count: int) -> None:
        if not count:
            tree.add_rule("/disk/d", password="key", p_sub=True)

    assert sorted(pack(tree, change=change)) == ["a.txt", "d/", "hollow/", "m.bin", "z.txt"]


def test_archive_is_broken_off_when_its_user_may_read_nothing(tree: TreeEnv, root: Path) -> None:
    async def refuse() -> PathAccess:
        raise Unauthorized("sign revoked")

    async def collect() -> None:
        async for _ in ZipStream(await make_plan(await _access(tree), []), refuse).stream():
            pass

    with pytest.raises(Unauthorized):
        tree.run(collect())


def test_folder_that_cannot_be_listed_is_named(tree: TreeEnv, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iterate_batches = packing.entries.iterate_batches

    async def fail(access: PathAccess) -> AsyncIterator[object]:
        if access.path.name == "d":
            raise Unreachable
        async for batch in iterate_batches(access):
            yield batch

    monkeypatch.setattr(packing.entries, "iterate_batches", fail)
    files = pack(tree)
    assert files["d.error.txt"] == b"storage does not answer\n"
    assert "d/b.txt" not in files


def test_absent_name_is_refused_or_replaced(tree: TreeEnv, root: Path) -> None:
    assert set(pack(tree, "absent", "a.txt")) == {"absent.error.txt", "a.txt"}
    with pytest.raises(EntryNotFound):
        tree.run(make_plan(tree.access("/disk"), ["absent"], strict=True))


def test_walk_that_takes_too_long_is_refused(tree: TreeEnv, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PLAN_SECONDS", 0.0)
    with pytest.raises(TooLarge, match="as a task"):
        tree.run(make_plan(tree.access("/disk"), []))


@pytest.mark.parametrize("mount_path", ["/disk/d", "/disk/d/b.txt"])
def test_file_of_a_storage_that_is_mounted_over_it_is_not_read(tree: TreeEnv, root: Path, mount_path: str) -> None:
    def change(count: int) -> None:
        if not count:
            tree.mount_disk(mount_path)

    files = pack(tree, change=change)
    assert "d/b.txt" not in files
    assert files["d/b.txt.error.txt"]
