"""What tests of drivers do again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from mangrove.drivers import base
from mangrove.drivers.base import Driver, Entry, Upload
from mangrove.paths import TreePath
from mangrove.problems import NotFound

P = TreePath


async def body(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def cut(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise ConnectionResetError("the client went away")


async def put(driver: Any, path: str, content: bytes = b"x") -> Entry:
    entry: Entry = await driver.write(P(path), body(content), Upload(len(content), 1_700_000_000.0))
    return entry


async def content(driver: Driver, path: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([block async for block in await driver.read(P(path), offset, length)])


async def names(driver: Driver, path: str) -> list[str]:
    return sorted(entry.name for entry in await base.list_all(driver, P(path)))


async def exists(driver: Driver, path: str) -> bool:
    try:
        await driver.stat(P(path))
    except NotFound:
        return False
    return True


async def fails(work: Awaitable[Any], kinds: type[Exception] | tuple[type[Exception], ...]) -> None:
    with pytest.raises(kinds):
        await work


def upload_of(content: bytes) -> Upload:
    return Upload(len(content), 1_700_000_000.0)
