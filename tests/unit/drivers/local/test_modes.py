"""Permissions of what is made: for the owner alone in the data directory, as the umask has it everywhere else."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.config import Config, config
from mangrove.core.paths import TreePath
from mangrove.drivers.base import CopyRequest, DriverContext, Upload
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.options import LocalOptions


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    """The data directory; the umask is the usual one."""
    runtime.put(Config, replace(config(), data=tmp_path / "data"))
    before = os.umask(0o022)
    yield tmp_path / "data"
    os.umask(before)


def mount(folder: Path) -> Local:
    folder.mkdir(parents=True, exist_ok=True)
    options = LocalOptions.parse(json.dumps({"root_folder_path": str(folder), "thumbnail": False}))
    return Local(options, DriverContext())


async def read_body() -> AsyncIterator[bytes]:
    yield b"content"


async def make_all(storage: Local) -> None:
    """A folder, a file, a copy of each and a file in parts."""
    await storage.makedirs(TreePath("/folder/below"))
    await storage.write(TreePath("/folder/file"), read_body(), Upload(7, 1.0))
    await storage.copy(TreePath("/folder/file"), TreePath("/folder/copy"))
    await storage.copy(TreePath("/folder/below"), TreePath("/copied"))
    token = await storage.begin(TreePath("/parts"), Upload(7, 1.0), "key")
    receipt = await storage.write_part(TreePath("/parts"), token, 1, 0, b"content")
    await storage.finish(TreePath("/parts"), token, [receipt], Upload(7, 1.0))


def list_modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*")}


EXPECTED_MODES = {"folder": 0o755, "folder/below": 0o755, "copied": 0o755, "folder/file": 0o644, "folder/copy": 0o644}
EXPECTED_MODES |= {"parts": 0o644}


def test_files_outside_data_directory_are_readable_by_others(tmp_path: Path) -> None:
    asyncio.run(make_all(mount(tmp_path / "media")))
    assert list_modes(tmp_path / "media") == {name: f"{mode:o}" for name, mode in EXPECTED_MODES.items()}


def test_what_is_made_in_the_data_directory_is_for_the_owner_alone(data: Path) -> None:
    asyncio.run(make_all(mount(data / "files")))
    assert list_modes(data / "files") == {name: f"{mode & 0o700:o}" for name, mode in EXPECTED_MODES.items()}


def test_file_moved_out_of_data_directory_becomes_readable(data: Path, tmp_path: Path) -> None:
    inside, outside, back = mount(data / "files"), mount(tmp_path / "media"), mount(data / "other")

    async def copy(source: Local, target: Local, name: str) -> None:
        entry = await source.stat(TreePath(name))
        request = CopyRequest(TreePath(name), TreePath(name), entry.size or 0, entry.modified, False, entry.etag)
        assert await target.copy_from(source, [request]) == [None]

    async def carry() -> None:
        for name in ("/file", "/program"):
            await inside.write(TreePath(name), read_body(), Upload(7, 1.0))
        (data / "files/program").chmod(0o700)
        for name in ("/file", "/program"):
            await copy(inside, outside, name)
            await copy(outside, back, name)

    asyncio.run(carry())
    assert list_modes(tmp_path / "media") == {"file": "644", "program": "755"}
    assert list_modes(data / "other") == {"file": "600", "program": "700"}
