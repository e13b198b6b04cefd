"""Bytes in waiting: uploads to be stored, manifests of folders. A folder on one machine, a bucket in the cloud."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator

from mangrove.config import config
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext, MakesDirectories, Removes, Upload, Writes
from mangrove.paths import TreePath
from mangrove.problems import Problem

BODY = "body"  # where a task keeps what it brought for the next one
PINNED = "lent"  # stands beside what another program goes on to use: never to be cleared by us

_driver: Driver | None = None
_starting = asyncio.Lock()


async def driver() -> Driver:
    """The storage of staging, started at the first call."""
    global _driver
    async with _starting:
        if _driver is None:
            _driver = await _started()
        return _driver


async def _started() -> Driver:
    data, bucket = config().data, os.environ.get("MANGROVE_STAGING_BUCKET", "")
    if data is not None:
        folder = data / "staging"
        folder.mkdir(exist_ok=True)
        name, options = "Local", {"root_folder_path": str(folder), "show_hidden": True}
    elif bucket:
        region = os.environ.get("AWS_REGION", "us-east-1")
        name, options = "S3", {"bucket": bucket, "region": region, "root_folder_path": "/"}
    else:
        raise Problem("there is no place for staging")
    kind = registry.load(name)
    made = kind(kind.Options.parse(json.dumps(options)), DriverContext())
    await made.start()
    return made


def folder(task_id: str, name: str) -> str:
    """The same as a path of this machine, for programs that run beside us; Problem in the cloud."""
    data = config().data
    if data is None:
        raise Problem("there is no folder that this service shares with other programs")
    path = data.absolute() / "staging" / task_id / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)


def place(task_id: str, name: str) -> TreePath:
    """Where a task keeps something."""
    return TreePath(f"/{task_id}") / name


async def keep(task_id: str, name: str, body: AsyncIterator[bytes], upload: Upload) -> int:
    """Store a body for a task, whole or not at all; its size in bytes."""
    store = await driver()
    assert isinstance(store, Writes)
    path = TreePath(f"/{task_id}/{name}")
    assert isinstance(store, MakesDirectories)
    await store.makedirs(path.parent)
    return (await store.write(path, body, upload)).size or 0


async def pin(task_id: str) -> None:
    """Leave what a task has kept to another program for good."""
    await keep(task_id, PINNED, _nothing(), Upload(0, time.time()))


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""  # makes this a generator


async def clear(task_id: str) -> None:
    """Remove everything a task has kept, unless it is lent."""
    try:
        await (await driver()).stat(place(task_id, PINNED))
    except Problem:
        await _remove(TreePath(f"/{task_id}"))


async def forget(task_id: str, name: str) -> None:
    """Remove one thing a task has kept."""
    await _remove(place(task_id, name))


async def _remove(path: TreePath) -> None:
    store = await driver()
    assert isinstance(store, Removes)
    try:
        await store.remove(path)
    except Problem:
        pass  # nothing was kept, or the sweep will find it
