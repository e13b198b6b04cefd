"""Bytes in waiting: uploads to be stored, manifests of folders. A folder on one machine, a bucket in the cloud."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.drivers.base import Driver, Upload
from mangrove.drivers.registry import start_own_storage

BODY = "body"  # where a task keeps what it brought for the next one
PINNED = "pinned"  # a file that marks what another program uses: never to be removed by this service


class Staging:
    """The storage of staging of this process."""

    def __init__(self, driver: Driver | None = None) -> None:
        self._driver = driver
        self._starting = asyncio.Lock()

    async def get_driver(self) -> Driver:
        """The storage, started at the first call; Problem where none is configured."""
        async with self._starting:
            if self._driver is None:
                self._driver = await start_own_storage("staging", "MANGROVE_STAGING_BUCKET")
            return self._driver


async def driver() -> Driver:
    """The storage of staging."""
    return await runtime.get(Staging).get_driver()


def make_shared_folder(task_id: str, name: str) -> str:
    """The absolute path on this machine of something a task keeps, made as a folder, for programs that run beside this
    service; Problem in the cloud."""
    return str(platform().make_shared_folder(task_id, name))


def get_path(task_id: str, name: str) -> TreePath:
    """Where a task keeps something."""
    return TreePath(f"/{task_id}") / name


async def store(task_id: str, name: str, body: AsyncIterator[bytes], upload: Upload) -> int:
    """Store a body for a task, whole or not at all; its size in bytes. `name` may be a path."""
    storage = await driver()
    path = TreePath(f"/{task_id}/{name}")
    await make_parent(path)
    return (await storage.write(path, body, upload)).size or 0


async def make_parent(path: TreePath) -> None:
    """Make the folder of a file that is to be kept; in a bucket its name is enough."""
    if platform().has_disk:
        await make_folder(path.parent)


async def make_folder(path: TreePath) -> None:
    """Make a folder of staging and its parents."""
    storage = await driver()
    await storage.makedirs(path)


async def sync(path: TreePath) -> None:
    """Make what is kept there survive a power cut, if the setting wants that of what is stored."""
    storage = await driver()
    if configuration.cached().settings.is_durable and storage.capabilities.sync:
        await storage.sync(path)


async def pin(task_id: str) -> None:
    """Leave what a task has kept to another program for good."""
    await store(task_id, PINNED, stream(b""), Upload(0, time.time()))


async def clear(task_id: str) -> None:
    """Remove everything a task has kept, unless it is pinned."""
    try:
        await (await driver()).stat(get_path(task_id, PINNED))
    except Problem:
        await _remove(TreePath(f"/{task_id}"))


async def remove(task_id: str, name: str) -> None:
    """Remove one thing a task has kept."""
    await _remove(get_path(task_id, name))


async def _remove(path: TreePath) -> None:
    storage = await driver()
    try:
        await storage.remove(path)
    except Problem:
        pass  # nothing was kept, or the sweep will find it
