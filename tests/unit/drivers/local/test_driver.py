"""Writes that are cancelled leave nothing; what blocks does so in threads."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import BLOCK, DriverContext, Upload
from mangrove.drivers.local.driver import Local, LocalOptions


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
        async with asyncio.timeout(30):
            while len(os.listdir("/proc/self/fd")) > handles:  # they are closed in a thread
                gc.collect()
                await asyncio.sleep(0.01)

    asyncio.run(go())


def test_nothing_of_the_disk_is_touched_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of it may hang: to make a storage, to start it, and what is small enough to be forgotten."""
    (tmp_path / "f").write_bytes(b"x" * 10)
    loop_thread = threading.get_ident()
    listed: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            if threading.get_ident() == loop_thread and watching:
                listed.append(name)
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("open", "close", "stat", "lstat", "readlink", "fsync", "statvfs", "rename", "unlink", "mkdir"):
        watch(name)
    watching: list[bool] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"body"

    async def go() -> None:
        await asyncio.to_thread(list)  # the loop's own thread has started
        watching.append(True)
        driver = Local(
            LocalOptions(root_folder_path=str(tmp_path), recycle_bin_path=str(tmp_path / "bin")), DriverContext()
        )
        await driver.start()
        await driver.can_refuse_existing()
        await driver.proves_writes()
        await driver.get_space()
        entry = await driver.stat(TreePath("/f"))
        blocks = [block async for block in await driver.read(TreePath("/f"), 0, None, entry)]
        assert blocks == [b"x" * 10]
        await driver.write(TreePath("/g"), body(), Upload(4, 1.0, durable=True))
        await driver.abort(TreePath("/h"), await driver.begin(TreePath("/h"), Upload(4, 1.0), "1-2"))
        await driver.makedirs(TreePath("/d/e"))
        await driver.move(TreePath("/g"), TreePath("/d/e/g"), overwrite=False)
        await driver.remove_unchanged(TreePath("/f"), entry)
        await driver.remove(TreePath("/d"))
        watching.clear()

    asyncio.run(go())
    assert listed == []
