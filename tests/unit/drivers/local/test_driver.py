"""What cancelling does to a write: nothing is left, whenever it comes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mangrove.drivers.base import BLOCK, DriverContext, Upload
from mangrove.drivers.local.driver import Local, LocalOptions
from mangrove.paths import TreePath


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_a_cancelled_write_leaves_no_file_and_no_handle(tmp_path: Path, blocks: int) -> None:
    (tmp_path / "old").write_text("old")

    async def body(pass_checkpoint: asyncio.Event) -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield b"x" * BLOCK
        pass_checkpoint.set()
        await asyncio.sleep(60)

    async def go() -> None:
        driver = Local(LocalOptions.parse(f'{{"root_folder_path": "{tmp_path}"}}'), DriverContext())
        await driver.start()
        handles = len(os.listdir("/proc/self/fd"))
        for steps in range(12):
            pass_checkpoint = asyncio.Event()
            writing = asyncio.create_task(driver.write(TreePath("/old"), body(pass_checkpoint), Upload(None, 1.0)))
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps == 11:
                await pass_checkpoint.wait()
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            assert os.listdir(tmp_path) == ["old"], steps
        assert (tmp_path / "old").read_text() == "old"
        assert len(os.listdir("/proc/self/fd")) == handles

    asyncio.run(go())
