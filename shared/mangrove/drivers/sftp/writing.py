"""Files that are made under another name: how they get their time, how they survive a power cut."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import asyncssh

from mangrove.core.problems import NotSupported, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import make_part_name
from mangrove.drivers.sftp.errors import Failure
from mangrove.drivers.sftp.names import CREATE, Discard
from mangrove.drivers.sftp.session import SLOW_ANSWER_SECONDS, Session

COPIED_AT_ONCE = 16 << 20  # bytes that the server copies in one request: what else is asked on that connection waits
LATEST = (1 << 32) - 1  # seconds since the epoch, as the protocol has them


async def settle(session: Session, part: bytes, name: str, size: int, upload: Upload) -> asyncssh.SFTPAttrs:
    """Give an unfinished file its time where the server does that; what it is then. StorageProblem unless it has `size`
    bytes, EntryNotFound."""
    seconds = min(max(int(upload.modified), 0), LATEST)
    try:
        await session.ask(session.client.utime(part, (seconds, seconds)), name)
    except Unreachable:
        raise
    except StorageProblem:
        pass  # it keeps the time when it was written
    found = await session.ask(session.client.lstat(part), name)
    if found.size != size:
        raise StorageProblem(f"the server has stored {found.size} bytes instead of {size}")
    return found


async def sync(session: Session, file: Any, name: str) -> None:
    """Have an open file survive a power cut of the server, as far as that offers it."""
    with suppress(NotSupported):
        await session.ask(file.fsync(), name, SLOW_ANSWER_SECONDS)


async def sync_folders(session: Session, folders: Sequence[bytes], name: str) -> None:
    """The same for the names in folders: of a file that is new in the first, which may be new in the next."""

    async def sync_one(folder: bytes) -> None:
        async with session.open_file(folder, asyncssh.FXF_READ, name) as handle:
            await sync(session, handle, name)

    for result in await asyncio.gather(*map(sync_one, folders), return_exceptions=True):
        if isinstance(result, StorageProblem) and not isinstance(result, Unreachable):
            continue  # a server that opens no folders
        if isinstance(result, BaseException):
            raise result


async def can_sync(session: Session, folder: bytes) -> bool:
    """Whether the server makes files and names survive a power cut."""
    try:
        async with session.open_file(folder, asyncssh.FXF_READ, "") as handle:
            await session.ask(handle.fsync(), "", SLOW_ANSWER_SECONDS)
    except Unreachable:
        raise
    except StorageProblem:
        return False
    return True


async def copy_bytes(session: Session, source: Any, target: Any, size: int, name: str) -> None:
    """Have the server copy `size` bytes from one open file to another."""
    for offset in range(0, size, COPIED_AT_ONCE):
        length = min(COPIED_AT_ONCE, size - offset)
        copying = session.client.remote_copy(source, target, offset, length, offset)
        await session.ask(copying, name, SLOW_ANSWER_SECONDS)


async def can_write_into(session: Session, folder: bytes, discard: Discard) -> bool:
    """Whether the server writes into a file that is there: rclone without a cache of its own takes a file in one go."""
    if session.is_openssh:
        return True
    part = folder + b"/" + make_part_name().encode()
    async with session.open_file(part, CREATE, ""):
        pass
    try:
        async with session.open_file(part, asyncssh.FXF_WRITE, "") as file:
            await session.ask(file.write(b"x", 1))
    except (Failure, StorageForbidden, NotSupported):
        return False
    finally:
        await discard(part)
    return True
