"""Entries of folders on an SFTP server: listing, renaming with and without replacement, removal."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NamedTuple

import asyncssh

from mangrove.core import deadlines
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported, StorageProblem, Unreachable
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import is_part, make_part_name
from mangrove.drivers.sftp.client import SftpSession
from mangrove.drivers.sftp.errors import ServerFailure

LISTING_BATCH_ENTRIES = 1000
LINK_CONCURRENCY = 32
REMOVAL_CONCURRENCY = 64
MAX_REMOVAL_PASSES = 5  # over a folder that others fill meanwhile, or whose server skips names during removals
CREATE = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
_LINK, _FOLDER = asyncssh.FILEXFER_TYPE_SYMLINK, asyncssh.FILEXFER_TYPE_DIRECTORY
_UNKNOWN = asyncssh.FILEXFER_TYPE_UNKNOWN

Discard = Callable[[bytes], Awaitable[None]]  # removes a temporary file, now or later; never fails


class RawEntry(NamedTuple):
    """A name in a folder of the server, and its attributes."""

    name: bytes
    attributes: asyncssh.SFTPAttrs


def is_folder(attributes: asyncssh.SFTPAttrs) -> bool:
    """True for a folder, False for a link to a folder."""
    return _get_type(attributes) == _FOLDER


def is_link(attributes: asyncssh.SFTPAttrs) -> bool:
    """True for a symbolic link."""
    return attributes.type == _LINK


def _get_type(attributes: asyncssh.SFTPAttrs) -> int:
    if attributes.type == _UNKNOWN and attributes.permissions is not None:
        return _FOLDER if stat.S_ISDIR(attributes.permissions) else _UNKNOWN
    return attributes.type


def make_entry(name: str, attributes: asyncssh.SFTPAttrs) -> Entry:
    """Return the entry of a file or folder that is not a link."""
    if _get_type(attributes) == _FOLDER:
        return Entry(name, 0, float(attributes.mtime or 0), True)
    return Entry(name, attributes.size, float(attributes.mtime or 0), False)


async def find(session: SftpSession, path: bytes, name: str) -> asyncssh.SFTPAttrs | None:
    """Return the attributes of a path without following links; None if it does not exist."""
    try:
        return await session.call(session.client.lstat(path), name)
    except EntryNotFound:
        return None


async def scan(session: SftpSession, folder: bytes, name: str) -> AsyncGenerator[list[RawEntry], None]:
    """Yield all names of a folder except `.` and `..` in batches, including names that a path cannot contain."""
    scanning: Any = session.client.scandir(folder)
    async with aclosing(scanning):
        while True:
            batch = await session.call(_read_batch(scanning), name)
            entries = [entry for entry in batch if entry.name not in (b".", b"..")]
            if entries:
                yield entries
            if len(batch) < LISTING_BATCH_ENTRIES:
                return


async def _read_batch(scanning: Any) -> list[RawEntry]:
    """Return the next entries: LISTING_BATCH_ENTRIES, fewer at the end."""
    entries: list[RawEntry] = []
    async for entry in scanning:
        entries.append(RawEntry(entry.filename, entry.attrs))
        if len(entries) == LISTING_BATCH_ENTRIES:
            break
    return entries


async def list_folder(
    session: SftpSession, folder: bytes, path: str, *, skip_broken: bool
) -> AsyncGenerator[Sequence[Entry], None]:
    """Yield the entries of a folder in batches, links as their targets.

    A link without a target is left out if `skip_broken`; otherwise a StorageProblem names it.
    """
    async with aclosing(scan(session, folder, path)) as batches:
        async for batch in batches:
            entries: list[Entry] = []
            links: list[tuple[str, bytes]] = []
            for raw in batch:
                name = _decode(raw.name)
                if name is None:
                    continue
                if is_link(raw.attributes) or _get_type(raw.attributes) == _UNKNOWN:
                    links.append((name, folder + b"/" + raw.name))
                else:
                    entries.append(make_entry(name, raw.attributes))
            followed = [partial(_follow, session, *link, skip_broken) for link in links]
            entries += filter(None, await gather_bounded(followed, LINK_CONCURRENCY))
            yield entries
            await asyncio.sleep(0)


def _decode(raw: bytes) -> str | None:
    """Return a name in the form of a path; None for a name that is not shown."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if is_part(name) or "\\" in name or "/" in name or "\0" in name else name


async def _follow(session: SftpSession, name: str, path: bytes, skip_broken: bool) -> Entry | None:
    try:
        attributes = await session.call(session.client.stat(path), name)
    except Unreachable:
        raise
    except StorageProblem as problem:
        if skip_broken:
            return None
        raise StorageProblem(
            f"the link {name} cannot be followed: {problem.message}; ignore_symlink_error leaves such links out"
        ) from problem
    return make_entry(name, attributes)._replace(is_link=True)


async def replace_file(session: SftpSession, old: bytes, new: bytes, name: str, discard: Discard) -> None:
    """Rename a file and replace a file of the new name, atomically if the server can.

    Raise EntryExists if the new name is a folder's.
    """
    if not session.is_openssh:  # rclone refuses, and yet counts the file as renamed
        await _refuse_folder(session, new, name)
    try:
        await session.call(session.client.posix_rename(old, new), name)
    except NotSupported:
        await _replace_in_steps(session, old, new, name, discard)
    except ServerFailure:
        await _refuse_folder(session, new, name)
        raise


async def _refuse_folder(session: SftpSession, path: bytes, name: str) -> None:
    attributes = await find(session, path, name)
    if attributes is not None and is_folder(attributes):
        raise EntryExists


async def _replace_in_steps(session: SftpSession, old: bytes, new: bytes, name: str, discard: Discard) -> None:
    """Rename a file if the server cannot replace one: the old file has a temporary name until the new one is there."""
    existing = await find(session, new, name)
    if existing is None:
        return await session.call(session.client.rename(old, new), name)
    if is_folder(existing):
        raise EntryExists
    temporary = new.rpartition(b"/")[0] + b"/" + make_part_name().encode()
    await session.call(session.client.rename(new, temporary), name)
    try:
        await session.call(session.client.rename(old, new), name)
    except StorageProblem:
        with suppress(StorageProblem):
            await session.call(session.client.rename(temporary, new), name)
        raise
    await discard(temporary)


async def rename_file(session: SftpSession, old: bytes, new: bytes, name: str, *, is_proven: bool) -> None:
    """Rename a file. Raise EntryExists if the new name is taken.

    `is_proven`: the server is known to refuse a taken name atomically.
    """
    if not is_proven and await find(session, new, name) is not None:
        raise EntryExists
    try:
        await session.call(session.client.rename(old, new), name)
    except (ServerFailure, EntryNotFound):
        await _refuse_existing(session, new, name)
        raise


async def _refuse_existing(session: SftpSession, path: bytes, name: str) -> None:
    if await find(session, path, name) is not None:
        raise EntryExists


async def rename_link(session: SftpSession, old: bytes, new: bytes, name: str, *, is_proven: bool) -> None:
    """Rename a link as `rename_file` does. OpenSSH does not refuse taken names for links atomically."""
    if not is_proven:
        return await rename_file(session, old, new, name, is_proven=False)
    try:
        await session.call(session.client.link(old, new), name)
    except ServerFailure:
        await _refuse_existing(session, new, name)
        raise
    await remove_file(session, old, name)


async def rename_folder(session: SftpSession, old: bytes, new: bytes, name: str, *, is_proven: bool) -> None:
    """Rename a folder as `rename_file` does: an empty folder claims the name and is replaced atomically."""
    await _refuse_existing(session, new, name)
    if not is_proven:
        return await session.call(session.client.rename(old, new), name)
    await make_folder(session, new, name)
    try:
        await session.call(session.client.posix_rename(old, new), name)
    except StorageProblem as problem:
        try:
            await session.call(session.client.rmdir(new), name)
        except ServerFailure:
            raise EntryExists from problem  # another client has stored an entry in it
        raise


async def make_folder(session: SftpSession, path: bytes, name: str) -> None:
    """Make a folder. Raise EntryExists if the name is taken."""
    try:
        await session.call(session.client.mkdir(path), name)
    except ServerFailure:
        await _refuse_existing(session, path, name)
        raise


async def can_refuse_existing(session: SftpSession, folder: bytes, discard: Discard) -> bool:
    """True if renames of this server refuse a taken name atomically, tried with temporary names.

    OpenSSH renames a file by a hard link, which needs a free name, unless the file system has no hard links. Other
    servers may check and rename in two steps.
    """
    if not session.is_openssh:
        return False
    client = session.client
    first, second, third = (folder + b"/" + make_part_name().encode() for _ in range(3))
    try:
        for path in (first, second):
            async with session.open_file(path, CREATE, ""):
                pass
        await session.call(client.link(first, third))  # there are hard links
        for change in (client.link, client.rename):
            if await _succeeds(session, change(first, second)):
                return False
        await remove_file(session, second, "")
        await remove_file(session, third, "")
        for path in (second, third):
            await session.call(client.mkdir(path))
        if await _succeeds(session, client.mkdir(third)):
            return False
        await session.call(client.posix_rename(second, third))
        return not await _succeeds(session, client.rename(first, third))
    except (ServerFailure, NotSupported):
        return False
    finally:
        for path in (first, second, third):
            await discard(path)


async def _succeeds(session: SftpSession, request: Awaitable[object]) -> bool:
    try:
        await session.call(request)
    except ServerFailure:
        return False
    return True


async def remove_file(session: SftpSession, path: bytes, name: str) -> None:
    """Remove a file or link if it exists."""
    with suppress(EntryNotFound):
        await session.call(session.client.remove(path), name)


async def remove_empty_folder(session: SftpSession, path: bytes, name: str) -> None:
    """Remove an empty folder if it exists. Raise ServerFailure if it is not empty."""
    with suppress(EntryNotFound):
        await session.call(session.client.rmdir(path), name)


async def remove(session: SftpSession, path: bytes, name: str, *, recursive: bool = True) -> bool:
    """Remove a file, a link or a folder with its content. Return False if it does not exist. Links are not followed.

    Without `recursive` a folder has to be empty.
    """
    attributes = await find(session, path, name)
    if attributes is None:
        return False
    if not is_folder(attributes):
        await remove_file(session, path, name)
    elif recursive:
        await _remove_folder(session, path, name)
    else:
        await remove_empty_folder(session, path, name)
    return True


async def _remove_folder(session: SftpSession, path: bytes, name: str) -> None:
    for passes_left in reversed(range(MAX_REMOVAL_PASSES)):
        with suppress(EntryNotFound):
            await _remove_content(session, path, name)
        try:
            return await remove_empty_folder(session, path, name)
        except ServerFailure:
            if not passes_left:
                raise


async def _remove_content(session: SftpSession, path: bytes, name: str) -> None:
    """Remove the content of a folder: files as they are listed, then one folder after the other."""
    folders: list[bytes] = []
    async with aclosing(scan(session, path, name)) as batches:
        async for batch in batches:
            paths = [(path + b"/" + raw.name, is_folder(raw.attributes)) for raw in batch]
            folders += [child for child, is_dir in paths if is_dir]
            removals = [partial(remove_file, session, child, name) for child, is_dir in paths if not is_dir]
            await gather_bounded(removals, REMOVAL_CONCURRENCY)
            deadlines.check()
    for folder in folders:
        await _remove_folder(session, folder, name)


async def is_empty(session: SftpSession, path: bytes, name: str) -> bool:
    """True if a folder is empty, including names that listings leave out."""
    async with aclosing(scan(session, path, name)) as batches:
        async for _ in batches:
            return False
    return True
