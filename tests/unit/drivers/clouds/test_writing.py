"""Files that a service takes in one piece are bounded, and say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.limits import ConcurrencyLimiter, limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import DriverContext, Upload
from mangrove.drivers.clouds import transfer
from mangrove.drivers.clouds.transfer import plan_part_size
from tests.contract.drivers.actions import content, names, put
from tests.unit.drivers.clouds.test_drives import FolderDrive, FolderOptions

P = TreePath


async def start(folder: Path) -> Any:
    driver = FolderDrive(
        FolderOptions(root_folder_path=str(folder / "root"), atomic_write_dir=str(folder / "parts")), DriverContext()
    )
    await driver.start()
    return driver


def test_oversized_body_is_refused_as_early_as_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_PIECE_BYTES", 2 << 20)
    read = []

    async def body(blocks: int) -> AsyncIterator[bytes]:
        for number in range(blocks):
            read.append(number)
            yield b"x" * (1 << 20)

    async def used() -> None:
        driver = await start(tmp_path)
        await put(driver, "/f", b"old")
        with pytest.raises(StorageProblem, match="at most 2 MiB"):
            await driver.write(P("/f"), body(3), Upload(3 << 20, 0.0))
        assert read == []
        with pytest.raises(StorageProblem, match="at most 2 MiB"):
            await driver.write(P("/f"), body(100), Upload(None, 0.0))
        assert read == [0, 1, 2]
        assert await names(driver, "/") == ["f"]
        assert await content(driver, "/f") == b"old"
        await driver.write(P("/f"), body(2), Upload(None, 0.0))
        assert len(await content(driver, "/f")) == 2 << 20

    asyncio.run(used())


def test_uploads_at_once_wait_for_each_other_instead_of_filling_the_memory(tmp_path: Path) -> None:
    limits().whole_body_bytes = ConcurrencyLimiter("", 3 << 20, 3 << 20)
    under_way, most = 0, 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        yield b"x" * (1 << 20)
        await asyncio.sleep(0.01)
        yield b"x" * (1 << 19)
        under_way -= 1

    async def used() -> None:
        driver = await start(tmp_path)
        upload = Upload(3 << 19, 0.0)
        await asyncio.gather(*(driver.write(P(f"/{number}"), body(), upload) for number in range(8)))
        assert len(await names(driver, "/")) == 8

    asyncio.run(used())
    assert most == 2


def test_parts_are_as_large_as_they_must_be() -> None:
    assert plan_part_size(None) == plan_part_size(1) == 8 << 20
    assert plan_part_size(1 << 40) * 10_000 >= 1 << 40
