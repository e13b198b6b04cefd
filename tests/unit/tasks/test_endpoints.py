"""Both ends of a copy: when two files are the same, and when they only look so."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound
from mangrove.drivers.base import DriverContext, Entry
from mangrove.drivers.local.driver import Local
from mangrove.drivers.s3.driver import S3
from mangrove.tasks.core import files
from mangrove.tasks.core.files import FilePath
from mangrove.tasks.core.model import State
from mangrove.tasks.core.staging import StagedPath
from tests import servers
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import LARGE, PART, SUCCEEDED, Side

pytestmark = pytest.mark.usefixtures("small_parts")


def mount_twice(task_env: TaskEnv, side: str) -> tuple[Side, str]:
    """A storage with three files, and the mount of another one that is the same place."""
    mounted: Side
    if side == "bucket":
        mounted = task_env.bucket()
        other = task_env.mount("S3", servers.s3_options(task_env.endpoint(), mounted.name))
    else:
        mounted = task_env.disk()
        alias = {"paths": mounted.mount, "write_conflict_policy": "all", "put_conflict_policy": "all"}
        local = {"root_folder_path": str(mounted.root), "show_hidden": True}
        other = task_env.mount("Alias", alias) if side == "alias" else task_env.mount("Local", local)
    for name, content in (("small", b"content"), ("large", LARGE), ("folder/small", b"content")):
        mounted.put(name, content)
    return mounted, other


@pytest.mark.parametrize("conflict", [{"overwrite": True}, {"merge": True}])
@pytest.mark.parametrize("name", ["small", "large", "folder"])
@pytest.mark.parametrize("side", ["disk", "bucket", "alias"])
def test_what_is_moved_onto_itself_through_another_mount_is_not_lost(
    task_env: TaskEnv, side: str, name: str, conflict: dict[str, bool]
) -> None:
    storage, other = mount_twice(task_env, side)
    before = storage.files()
    tasks = task_env.transfer("move", storage.mount, other, name, **conflict)
    for task in tasks:
        task_env.run(task)
        assert task_env.view(task)[0] == State.FAILED
    assert bool(tasks) == ("overwrite" in conflict or name == "folder")
    assert storage.files() == before


def test_buckets_of_one_name_on_two_servers_are_two_places(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.bucket(), task_env.bucket()
    source.put("f", b"content")

    async def identify(self: S3, path: TreePath) -> set[str]:
        return {f"s3:bucket{path}"}

    monkeypatch.setattr(S3, "identify", identify)
    monkeypatch.setattr(S3, "plan_part_copies", lambda self, source: (0, 0))
    task = task_env.move(source.mount, target.mount, "f")
    time.sleep(1.1)  # S3 tells the time of an object in whole seconds
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert (source.files(), target.files()) == ({}, {"f": b"content"})


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [(b"", b"", True), (b"abc", b"abc", True), (b"abc", b"abd", False), (b"abc", b"abcd", False), (b"a", None, False)],
)
@pytest.mark.parametrize("sized", [True, False])
def test_files_are_the_same_when_their_bytes_are(
    tmp_path: Path, first: bytes, other: bytes | None, same: bool, sized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage knows their sizes, or not."""
    driver = Local(Local.Options(root_folder_path=str(tmp_path)), DriverContext())
    (tmp_path / "one").write_bytes(first)
    if other is not None:
        (tmp_path / "other").write_bytes(other)
    if not sized:
        stat = Local.stat

        async def stat_without_size(self: Local, path: TreePath) -> Any:
            return (await stat(self, path))._replace(size=None)

        monkeypatch.setattr(Local, "stat", stat_without_size)
        monkeypatch.setattr(files, "COMPARED_BYTES", 2)
    ends = StagedPath(driver, TreePath("/one")), StagedPath(driver, TreePath("/other"))
    assert asyncio.run(files.have_same_bytes(*ends)) is same


def test_files_are_compared_in_parts_and_missing_ones_differ(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = task_env.disk()
    disk.put("one", LARGE)
    disk.put("other", LARGE)
    driver = task_env.driver(disk.mount)
    lengths: list[int] = []
    read_range = files.read_range

    async def watch(path: FilePath, offset: int, length: int, if_match: Entry | None = None) -> bytes:
        lengths.append(length)
        return await read_range(path, offset, length, if_match)

    monkeypatch.setattr(files, "read_range", watch)
    first, other, nothing = (StagedPath(driver, TreePath(f"/{name}")) for name in ("one", "other", "nothing"))
    assert task_env.do(files.have_same_bytes(first, other))
    assert max(lengths) <= PART
    assert not task_env.do(files.have_same_bytes(first, nothing))
    with pytest.raises(EntryNotFound):
        task_env.do(driver.stat(nothing.path))


def test_a_tag_that_a_server_gives_later_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Entry("file", 3, 1.0, False)
    tags = ["", "strong", "another"]

    async def stat(self: Local, path: TreePath) -> Entry:
        return shown._replace(etag=tags[0])

    async def check() -> None:
        monkeypatch.setattr(Local, "stat", stat)
        path = StagedPath(Local(Local.Options(root_folder_path=str(tmp_path)), DriverContext()), TreePath("/file"))
        for version in (shown, shown._replace(etag="strong")):
            for tags[0] in ("", "strong"):
                await files.check_unchanged(path, version)
        tags[0] = "another"
        for other in (shown._replace(etag="strong"), shown._replace(modified=2.0), shown._replace(size=4)):
            with pytest.raises(EntryChanged):
                await files.check_unchanged(path, other)

    asyncio.run(check())
