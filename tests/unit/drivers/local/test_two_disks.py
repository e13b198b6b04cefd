"""Copies between two file systems: every way in which bytes get from one disk to another, and every size."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import CopyRequest, DriverContext, Upload
from mangrove.drivers.local.driver import Local
from mangrove.tasks.core.file_copy import MAX_WHOLE_BYTES
from tests.support.disks import other_file_system

P = TreePath
SIZES = [0, 1, 5 << 20, MAX_WHOLE_BYTES + 1, (64 << 20) + 3]
SMALL = SIZES[:4]
TIME = 1_700_000_000.5


@pytest.fixture(params=["disk to memory", "memory to disk"])
def disks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The source and the target folder."""
    with other_file_system(tmp_path) as other:
        yield (tmp_path, other) if request.param == "disk to memory" else (other, tmp_path)


def make_file(path: Path, size: int) -> bytes:
    content = os.urandom(min(size, 1 << 20)) * (size >> 20 or 1) + bytes(size % (1 << 20) if size > 1 << 20 else 0)
    path.write_bytes(content)
    os.utime(path, (TIME, TIME))
    assert len(content) == size
    return content


def run(work: Callable[[Local, Local], Awaitable[None]], source: Path, target: Path, **options: Any) -> None:
    async def go() -> None:
        drivers = [
            Local(Local.Options(root_folder_path=str(root), **options), DriverContext()) for root in (source, target)
        ]
        for driver in drivers:
            await driver.start()
        await work(*drivers)

    asyncio.run(go())


def link_disk(inside: Path, other: Path) -> Path:
    """Make a folder on another disk part of a storage, as a mount point would."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    (inside / "mounted").mkdir()
    if os.system(f"mount --bind {other} {inside}/mounted 2>/dev/null"):
        pytest.skip("nothing can be mounted here")
    return inside / "mounted"


@pytest.fixture
def two_in_one(tmp_path: Path) -> Iterator[Path]:
    """One storage with a folder `mounted` on another file system."""
    with other_file_system(tmp_path) as other:
        mounted = link_disk(tmp_path, other)
        try:
            yield tmp_path
        finally:
            os.system(f"umount {mounted}")


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("size", SMALL)
def test_copies_between_two_file_systems_work_for_small_files(
    disks: tuple[Path, Path], size: int, durable: bool
) -> None:
    source, target = disks
    content = make_file(source / "f", size)

    async def work(source: Local, other: Local) -> None:
        request = CopyRequest(P("/f"), P("/g"), size, TIME, False, durable=durable)
        assert await other.copy_from(source, [request]) == [None]

    run(work, source, target)
    assert (target / "g").read_bytes() == content
    assert (target / "g").stat().st_mtime == TIME


@pytest.mark.parametrize("size", SIZES)
def test_copies_between_two_file_systems_work_part_by_part(disks: tuple[Path, Path], size: int) -> None:
    """In parts of 24 MiB, in any order, one of them copied twice as after a kill."""
    source, target = disks
    content = make_file(source / "f", size)
    length = 24 << 20

    async def work(source: Local, other: Local) -> None:
        upload = Upload(size, TIME, durable=True)
        token = await other.begin(P("/g"), upload, base.make_parts_key())
        offsets = list(enumerate(range(0, size, length), 1))
        receipts: dict[int, str] = {}
        for number, offset in [*reversed(offsets), *offsets[:1]]:
            expected = min(length, size - offset)
            receipts[number] = await other.copy_part_from(source, P("/f"), P("/g"), token, number, offset, expected)
            assert receipts[number] == str(expected)
        await other.finish(P("/g"), token, [receipts[number] for number in sorted(receipts)], upload)

    run(work, source, target)
    assert (target / "g").read_bytes() == content
    assert os.listdir(target) == ["g"]


@pytest.mark.parametrize("size", SIZES)
def test_a_copy_inside_one_storage_on_two_file_systems_works(two_in_one: Path, size: int) -> None:
    content = make_file(two_in_one / "f", size)

    async def work(storage: Local, _: Local) -> None:
        try:
            await storage.copy(P("/f"), P("/mounted/f"), overwrite=False, durable=True)
            await storage.copy(P("/mounted/f"), P("/g"))
        except NotSupported:
            assert size > 64 << 20  # work for a task
        else:
            assert (two_in_one / "mounted/f").read_bytes() == (two_in_one / "g").read_bytes() == content

    run(work, two_in_one, two_in_one)


def test_a_move_inside_one_storage_on_two_file_systems_is_work_for_a_task(two_in_one: Path) -> None:
    make_file(two_in_one / "f", 1)

    async def work(storage: Local, _: Local) -> None:
        for verb in (storage.move, storage.rename):
            for overwrite in (True, False):
                with pytest.raises(NotSupported):
                    await verb(P("/f"), P("/mounted/f"), overwrite=overwrite)

    run(work, two_in_one, two_in_one)
    assert sorted(os.listdir(two_in_one)) == ["f", "mounted"]


@pytest.mark.parametrize("size", SMALL)
def test_a_body_from_one_file_system_is_written_to_another(disks: tuple[Path, Path], size: int) -> None:
    source, target = disks
    content = make_file(source / "f", size)

    async def work(source: Local, other: Local) -> None:
        await other.write(P("/g"), await source.read(P("/f")), Upload(size, TIME, overwrite=False, durable=True))

    run(work, source, target)
    assert (target / "g").read_bytes() == content


def test_what_is_removed_goes_to_a_recycle_bin_on_another_file_system(disks: tuple[Path, Path]) -> None:
    source, recycle_bin = disks
    contents = {}
    (source / "d/deep").mkdir(parents=True)
    for name in ("f", "unchanged", "d/g", "d/deep/h"):
        contents[name] = make_file(source / name, 100_000)
    (source / "d/link").symlink_to("g")

    async def work(storage: Local, _: Local) -> None:
        await storage.remove(P("/f"))
        await storage.remove(P("/d"))
        await storage.remove_unchanged(P("/unchanged"), await storage.stat(P("/unchanged")))
        make_file(source / "f", 3)
        await storage.remove(P("/f"))

    run(work, source, source, recycle_bin_path=str(recycle_bin))
    assert os.listdir(source) == []
    for name, content in contents.items():
        assert (recycle_bin / name).read_bytes() == content
        assert (recycle_bin / name).stat().st_mtime == TIME
    assert os.readlink(recycle_bin / "d/link") == "g"
    assert sorted(path.name[:2] for path in recycle_bin.iterdir()) == ["d", "f", "f_", "un"]


def test_a_device_stays_when_the_recycle_bin_is_on_another_file_system(disks: tuple[Path, Path]) -> None:
    source, recycle_bin = disks
    os.mkfifo(source / "device")

    async def work(storage: Local, _: Local) -> None:
        with pytest.raises(StorageProblem, match="recycle bin"):
            await storage.remove(P("/device"))

    run(work, source, source, recycle_bin_path=str(recycle_bin))
    assert os.listdir(source) == ["device"]
