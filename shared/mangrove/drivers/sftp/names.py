"""What gives a file or folder another name: replacing a file, or nothing at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncssh

from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.part_names import make_part_name
from mangrove.drivers.sftp.errors import Failure
from mangrove.drivers.sftp.listing import find, is_folder
from mangrove.drivers.sftp.session import Session

CREATE = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL


Discard = Callable[[bytes], Awaitable[None]]  # removes what is not to stay, now or later, and never fails


async def replace_file(session: Session, old: bytes, new: bytes, name: str, discard: Discard) -> None:
    """Rename a file, in one step over a file of the new name where the server can; EntryExists for a folder of that
    name."""
    if not session.is_openssh:  # rclone takes a file for renamed after it has refused to
        found = await find(session, new, name)
        if found is not None and is_folder(found):
            raise EntryExists
    try:
        await session.ask(session.client.posix_rename(old, new), name)
    except NotSupported:
        await _replace_aside(session, old, new, name, discard)
    except Failure:
        found = await find(session, new, name)
        if found is not None and is_folder(found):
            raise EntryExists from None
        raise


async def _replace_aside(session: Session, old: bytes, new: bytes, name: str, discard: Discard) -> None:
    """Rename a file where the server replaces none: the old file has another name until the new one is there."""
    found = await find(session, new, name)
    if found is None:
        return await session.ask(session.client.rename(old, new), name)
    if is_folder(found):
        raise EntryExists
    aside = new.rpartition(b"/")[0] + b"/" + make_part_name().encode()
    await session.ask(session.client.rename(new, aside), name)
    try:
        await session.ask(session.client.rename(old, new), name)
    except StorageProblem:
        with suppress(StorageProblem):
            await session.ask(session.client.rename(aside, new), name)
        raise
    await discard(aside)


async def keep_existing(session: Session, old: bytes, new: bytes, name: str, *, is_proven: bool) -> None:
    """Rename a file to a name that is free; EntryExists. In one step with that where `is_proven` of the server."""
    if not is_proven and await find(session, new, name) is not None:
        raise EntryExists
    try:
        await session.ask(session.client.rename(old, new), name)
    except (Failure, EntryNotFound):
        if await find(session, new, name) is not None:
            raise EntryExists from None
        raise


async def keep_existing_link(session: Session, old: bytes, new: bytes, name: str, *, is_proven: bool) -> None:
    """As `keep_existing`, of a link, which OpenSSH renames less carefully than a file."""
    if not is_proven:
        return await keep_existing(session, old, new, name, is_proven=False)
    try:
        await session.ask(session.client.link(old, new), name)
    except Failure:
        if await find(session, new, name) is not None:
            raise EntryExists from None
        raise
    await remove_file(session, old, name)


async def keep_existing_folder(session: Session, old: bytes, new: bytes, name: str, *, is_proven: bool) -> None:
    """As `keep_existing`, of a folder: an empty one claims its name, which it replaces in one step."""
    if await find(session, new, name) is not None:
        raise EntryExists
    if not is_proven:
        return await session.ask(session.client.rename(old, new), name)
    await make_folder(session, new, name)
    try:
        await session.ask(session.client.posix_rename(old, new), name)
    except StorageProblem as problem:
        try:
            await session.ask(session.client.rmdir(new), name)
        except Failure:
            raise EntryExists from problem  # somebody has put something into it
        raise


async def make_folder(session: Session, path: bytes, name: str) -> None:
    """Make one folder; EntryExists when there is anything of that name."""
    try:
        await session.ask(session.client.mkdir(path), name)
    except Failure:
        if await find(session, path, name) is None:
            raise
        raise EntryExists from None


async def remove_file(session: Session, path: bytes, name: str) -> None:
    """Remove a file or link, if it is there."""
    with suppress(EntryNotFound):
        await session.ask(session.client.remove(path), name)


async def can_keep_existing(session: Session, folder: bytes, discard: Discard) -> bool:
    """Whether renames on this server never replace what has the name, in one step: tried with names of its own.

    OpenSSH renames a file by a hard link, which is made of a free name only, and by looking before where the file
    system has no hard links. Of other servers nobody knows what goes on between a look and the change.
    """
    if not session.is_openssh:
        return False
    client = session.client
    one, other, third = (folder + b"/" + make_part_name().encode() for _ in range(3))
    try:
        for path in (one, other):
            async with session.open_file(path, CREATE, ""):
                pass
        await session.ask(client.link(one, third))  # there are hard links
        for change in (client.link, client.rename):
            if await _is_done(session, change(one, other)):
                return False
        await remove_file(session, other, "")
        await remove_file(session, third, "")
        for path in (other, third):
            await session.ask(client.mkdir(path))
        if await _is_done(session, client.mkdir(third)):
            return False
        await session.ask(client.posix_rename(other, third))
        return not await _is_done(session, client.rename(one, third))
    except (Failure, NotSupported):
        return False
    finally:
        for path in (one, other, third):
            await discard(path)


async def _is_done(session: Session, request: Awaitable[object]) -> bool:
    try:
        await session.ask(request)
    except Failure:
        return False
    return True


async def remove_either(session: Session, path: bytes) -> bool:
    """Remove a file or an empty folder; True if it was there."""
    found = await find(session, path, "")
    if found is not None and is_folder(found):
        await session.ask(session.client.rmdir(path))
    elif found is not None:
        await remove_file(session, path, "")
    return found is not None
