"""Power cuts: a disk is cut off in the middle, and its content is mounted again."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers import base
from mangrove.drivers.base import CopyRequest, DriverContext, Entry, NewFile, Upload
from mangrove.drivers.local import durability
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.rooted import Root

P = TreePath
CONTENT = os.urandom(100_000)
SMALL_FILES = 20
DURABLE = Upload(len(CONTENT), 1_700_000_000.0, durable=True)


class Image:
    """A file system in a file. What is in the file is what is on the disk: all else is lost when it is cut off."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root = folder / "mounted"
        self.root.mkdir()
        self._image = folder / "image"
        with open(self._image, "wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
        self._mount(self._image, self.root, "loop,commit=300")

    def _mount(self, image: Path, root: Path, options: str) -> None:
        if subprocess.run(["mount", "-o", options, image, root], capture_output=True).returncode:
            pytest.skip("no loop device can be mounted here")

    def cut(self) -> Path:
        """The folder as it is after a power cut in this moment, its journal replayed and checked."""
        root = self._folder / "after"
        root.mkdir()
        image = shutil.copyfile(self._image, self._folder / "image-after")
        self._mount(image, root, "loop")
        return root

    def close(self) -> None:
        for name in ("after", "mounted"):
            subprocess.run(["umount", self._folder / name], capture_output=True)


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a disk that is cut off takes root, and mkfs.ext4")
    made = Image(tmp_path)
    try:
        yield made
    finally:
        made.close()


async def body() -> AsyncIterator[bytes]:
    yield CONTENT


def run(image: Image, source: Path, durable: bool) -> dict[str, bytes]:
    """Store files in every way, in folders that are new; what is left of them after a power cut."""
    upload = replace(DURABLE, durable=durable)
    for number in range(2 * durability.MIN_FILES_FOR_SYNCFS):
        (source / f"f{number}").write_bytes(CONTENT)

    async def go() -> None:
        driver, other = (
            Local(Local.Options(root_folder_path=str(root)), DriverContext()) for root in (image.root, source)
        )
        for folder in ("/a/b/put", "/a/parts", "/copies/one", "/copies/few", "/copies/many", "/small"):
            await driver.makedirs(P(folder))
        await driver.write(P("/a/b/put/f"), body(), upload)
        token = await driver.begin(P("/a/parts/f"), upload, base.make_parts_key())
        receipts = [await driver.write_part(P("/a/parts/f"), token, 1, 0, CONTENT)]
        await driver.finish(P("/a/parts/f"), token, receipts, upload)
        await driver.copy(P("/a/b/put/f"), P("/copies/one/f"), durable=durable)
        for folder, count in (("few", 3), ("many", 2 * durability.MIN_FILES_FOR_SYNCFS)):
            requests = [
                CopyRequest(
                    P(f"/f{number}"), P(f"/copies/{folder}/f{number}"), len(CONTENT),
                    (source / f"f{number}").stat().st_mtime, False, durable=durable,
                )
                for number in range(count)
            ]  # fmt: skip
            assert await driver.copy_from(other, requests) == [None] * count
        files = [NewFile(P(f"/small/f{number}"), CONTENT, upload) for number in range(SMALL_FILES)]
        assert all(isinstance(result, Entry) for result in await driver.write_whole(files))
        (image.root / "link").symlink_to("small")
        for path in ("/link/through", "/small/again"):  # the name of the folder is on the disk already
            assert isinstance((await driver.write_whole([NewFile(P(path), CONTENT, upload)]))[0], Entry)

    asyncio.run(go())
    after = image.cut()
    return {str(path.relative_to(after)): path.read_bytes() for path in after.rglob("*") if path.is_file()}


def test_what_is_stored_durably_survives_a_power_cut(image: Image, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    expected = {"a/b/put/f", "a/parts/f", "copies/one/f"}
    expected |= {f"copies/few/f{number}" for number in range(3)}
    expected |= {f"small/f{number}" for number in range(SMALL_FILES)} | {"small/through", "small/again"}
    expected |= {f"copies/many/f{number}" for number in range(2 * durability.MIN_FILES_FOR_SYNCFS)}
    assert run(image, tmp_path / "source", True) == dict.fromkeys(expected, CONTENT)


def test_what_is_not_flushed_does_not_survive(image: Image, tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    (tmp_path / "source").mkdir()
    left = run(image, tmp_path / "source", False)
    assert CONTENT not in left.values()


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that were flushed one by one."""
    targets: list[str] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        targets.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    return targets


def test_a_folder_whose_name_is_on_the_disk_is_not_flushed_again(tmp_path: Path, flushed: list[str]) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    made = Durability(Root(str(tmp_path)))
    made.sync_names([P("/a/b/f")])
    assert sorted(flushed) == [str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/a/b"]
    flushed.clear()
    made.sync_names([P("/a/b/g"), P("/a/b/h")])
    assert flushed == [f"{tmp_path}/a/b"]
    flushed.clear()
    (tmp_path / "a/b").rename(tmp_path / "a/old")
    (tmp_path / "a/b").mkdir()
    made.forget(P("/a/b"))
    made.sync_names([P("/a/b/f")])
    assert sorted(flushed) == [f"{tmp_path}/a", f"{tmp_path}/a/b"]


def test_a_file_behind_a_link_is_flushed_where_it_is(tmp_path: Path, flushed: list[str]) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    Durability(Root(str(tmp_path))).sync_names([P("/link/f")])
    assert sorted(flushed) == [str(tmp_path), f"{tmp_path}/real", f"{tmp_path}/real/deep"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_flushed_before_its_folder_and_only_if_it_is_to_be(
    tmp_path: Path, flushed: list[str], durable: bool
) -> None:
    driver: Any = Local(Local.Options(root_folder_path=str(tmp_path)), DriverContext())
    asyncio.run(driver.write(P("/f"), body(), replace(DURABLE, durable=durable)))
    assert len(flushed) == (2 if durable else 0)
    assert flushed[1:] == ([str(tmp_path)] if durable else [])
