"""Downloads of files that are too large for the answer of a function and whose storage has no links.

They are copied into staging once, and clients fetch them from there. A lifecycle rule of the bucket removes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from hashlib import sha256

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotSupported, TooLarge
from mangrove.drivers.base import Entry, Upload
from mangrove.tasks.core import staging
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.archives import MemberStream

FOLDER = "served"
STAGE_SECONDS = 20.0  # a function has 29 for its whole answer


async def stage(storage_path: StoragePath, entry: Entry, mime: str) -> str:
    """Return a URL of the file that `entry` describes. Raise TooLarge if it cannot be copied in time."""

    async def read() -> AsyncIterator[bytes]:
        return await storage_path.driver.read(storage_path.path, if_match=entry)

    upload = Upload(entry.size, entry.modified, mime)
    return await _stage_version(_describe(storage_path, entry), storage_path.path.name, upload, read)


async def stage_member(storage_path: StoragePath, body: MemberStream, mime: str) -> str:
    """Return a URL of a file in the archive at `storage_path`, and close the archive."""

    async def read() -> AsyncIterator[bytes]:
        return body

    member = body.member
    upload = Upload(member.size, member.modified or body.archive.modified, mime)
    version = f"{_describe(storage_path, body.archive)}\n{member.path}"
    async with aclosing(body):
        return await _stage_version(version, member.path.rpartition("/")[2], upload, read)


def _describe(storage_path: StoragePath, entry: Entry) -> str:
    """Return a text that is unique to a version of a file."""
    return f"{storage_path.mount.storage.id}\n{storage_path.path}\n{entry.size}\n{entry.modified}\n{entry.etag}"


async def _stage_version(
    version: str, name: str, upload: Upload, read: Callable[[], Awaitable[AsyncIterator[bytes]]]
) -> str:
    storage = await staging.driver()
    if not storage.capabilities.link or not storage.capabilities.write:
        raise NotSupported
    path = TreePath(f"/{FOLDER}/{sha256(version.encode()).hexdigest()}") / name
    try:
        await storage.stat(path)
    except EntryNotFound:
        body = await read()
        try:
            async with asyncio.timeout(STAGE_SECONDS):
                await storage.write(path, body, upload)
        except TimeoutError:
            raise TooLarge("this file is too large to be downloaded here: its storage is too slow") from None
    return (await storage.link(path)).url
