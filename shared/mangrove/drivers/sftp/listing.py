"""What a server says of files and folders, as entries."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import asyncssh

from mangrove.core.problems import EntryNotFound, StorageProblem, Unreachable
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import is_part
from mangrove.drivers.sftp.session import Session

BATCH = 1000  # entries
LINKS_AT_ONCE = 32
_LINK, _FOLDER = asyncssh.FILEXFER_TYPE_SYMLINK, asyncssh.FILEXFER_TYPE_DIRECTORY
_UNKNOWN = asyncssh.FILEXFER_TYPE_UNKNOWN


class RawEntry(NamedTuple):
    """One name of a folder, as the server has it."""

    name: bytes
    attributes: asyncssh.SFTPAttrs


def is_folder(attributes: asyncssh.SFTPAttrs) -> bool:
    """Whether it is a folder, and no link to one."""
    return _get_type(attributes) == _FOLDER


def is_link(attributes: asyncssh.SFTPAttrs) -> bool:
    """Whether it is a symbolic link."""
    return attributes.type == _LINK


def _get_type(attributes: asyncssh.SFTPAttrs) -> int:
    if attributes.type == _UNKNOWN and attributes.permissions is not None:
        return _FOLDER if stat.S_ISDIR(attributes.permissions) else _UNKNOWN
    return attributes.type


def make_entry(name: str, attributes: asyncssh.SFTPAttrs) -> Entry:
    """The entry for what is no link."""
    if _get_type(attributes) == _FOLDER:
        return Entry(name, 0, float(attributes.mtime or 0), True)
    return Entry(name, attributes.size, float(attributes.mtime or 0), False)


async def scan(session: Session, folder: bytes, name: str) -> AsyncGenerator[list[RawEntry], None]:
    """All names of a folder but `.` and `..`, in batches; those that no path can hold are among them."""
    found: list[RawEntry] = []
    scanning: Any = session.client.scandir(folder)
    async with aclosing(scanning):
        while True:
            batch = await session.ask(_read(scanning, BATCH), name)
            found = [entry for entry in batch if entry.name not in (b".", b"..")]
            if found:
                yield found
            if len(batch) < BATCH:
                return


async def _read(scanning: Any, count: int) -> list[RawEntry]:
    """The next entries; fewer than `count` at the end."""
    found: list[RawEntry] = []
    async for entry in scanning:
        found.append(RawEntry(entry.filename, entry.attrs))
        if len(found) == count:
            break
    return found


async def list_folder(
    session: Session, folder: bytes, path: str, *, skip_broken: bool
) -> AsyncGenerator[Sequence[Entry], None]:
    """The entries of a folder in batches; links as what they lead to.

    One that leads nowhere is left out when `skip_broken`, else the listing fails with a StorageProblem that names it.
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
                    links.append((name, raw.name))
                else:
                    entries.append(make_entry(name, raw.attributes))
            entries += await _resolve(session, folder, links, skip_broken) if links else ()
            yield entries
            await asyncio.sleep(0)


def _decode(raw: bytes) -> str | None:
    """A name as a path can hold it; None for one that is not shown."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if is_part(name) or "\\" in name or "/" in name or "\0" in name else name


async def _resolve(
    session: Session, folder: bytes, links: Sequence[tuple[str, bytes]], skip_broken: bool
) -> list[Entry]:
    turns = asyncio.Semaphore(LINKS_AT_ONCE)

    async def follow(name: str, raw: bytes) -> Entry | None:
        async with turns:
            try:
                found = await session.ask(session.client.stat(folder + b"/" + raw), name)
            except Unreachable:
                raise
            except StorageProblem as problem:
                if skip_broken:
                    return None
                raise StorageProblem(
                    f"the link {name} cannot be followed: {problem.message}; ignore_symlink_error leaves such links out"
                ) from problem
        return make_entry(name, found)._replace(is_link=True)

    found = await asyncio.gather(*(follow(*link) for link in links), return_exceptions=True)
    failures = [one for one in found if isinstance(one, BaseException)]
    if failures:
        raise failures[0]
    return [one for one in found if isinstance(one, Entry)]


async def find(session: Session, path: bytes, name: str) -> asyncssh.SFTPAttrs | None:
    """What is at a path, links not followed; None when there is nothing."""
    try:
        return await session.ask(session.client.lstat(path), name)
    except EntryNotFound:
        return None
