"""Actions that driver tests repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers import base
from mangrove.drivers.base import Driver, Entry, Upload

P = TreePath
SENT_AT = 1_700_000_000.0  # seconds since the epoch: the time that bodies are sent with
ADDRESS = "http://files.invalid/"


async def body(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def cut(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise ConnectionResetError("the client went away")


async def put(driver: Any, path: str, content: bytes = b"x", *, overwrite: bool = True) -> Entry:
    """Make a file; in a storage of addresses, one whose address contains the content."""
    if driver.capabilities.write:
        return await driver.write(P(path), body(content), Upload(len(content), SENT_AT, overwrite=overwrite))
    await driver.put_url(P(path), ADDRESS + quote(content, safe=""))
    return await driver.stat(P(path))


async def content(driver: Driver, path: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([block async for block in await driver.read(P(path), offset, length)])


async def check_file(driver: Any, path: str, expected: bytes) -> None:
    """That a file is what `put` made of `wanted`, as far as the storage keeps it."""
    entry = await driver.stat(P(path))
    assert (entry.name, entry.is_dir) == (P(path).name, False)
    if driver.capabilities.put_url:
        assert unquote((await driver.link(P(path))).url) == ADDRESS + expected.decode()
    elif driver.name == "Virtual":
        assert entry.size == len(expected)
    else:
        assert await content(driver, path) == expected


async def names(driver: Driver, path: str) -> list[str]:
    return sorted(entry.name for entry in await base.list_all(driver, P(path)))


async def exists(driver: Driver, path: str) -> bool:
    try:
        await driver.stat(P(path))
    except EntryNotFound:
        return False
    return True


async def fails(work: Awaitable[Any], kinds: type[Exception] | tuple[type[Exception], ...]) -> None:
    with pytest.raises(kinds):
        await work


def upload_of(content: bytes) -> Upload:
    return Upload(len(content), SENT_AT)


@asynccontextmanager
async def open_another(driver: Any) -> AsyncIterator[Any]:
    """A driver on the same storage, as another process has it."""
    inner = driver.get_unmapped()
    other = type(inner)(driver.options, driver.context)
    if inner is not driver:
        other = type(driver)(other, driver.mapping)
    await other.start()
    try:
        yield other
    finally:
        await other.stop()


async def make_tree(driver: Any, folders: Sequence[str] = (), files: Sequence[str] = ()) -> None:
    """Folders, then files that hold their own paths."""
    for folder in folders:
        await driver.makedirs(P(folder))
    for file in files:
        await put(driver, file, file.encode())


async def read_tree(driver: Any, path: str = "/") -> list[str]:
    """The paths of all below a folder, sorted; those of folders end with a slash."""
    paths: list[str] = []
    for entry in await base.list_all(driver, P(path)):
        below = f"{path.rstrip('/')}/{entry.name}"
        paths += [f"{below}/", *await read_tree(driver, below)] if entry.is_dir else [below]
    return sorted(paths)
