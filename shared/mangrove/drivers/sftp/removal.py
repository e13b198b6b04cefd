"""Removal of files, links and whole folders: never of what a link leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress

from mangrove.core import deadlines
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.sftp.errors import Failure
from mangrove.drivers.sftp.listing import RawEntry, find, is_folder, scan
from mangrove.drivers.sftp.names import remove_file
from mangrove.drivers.sftp.session import Session

AT_ONCE = 64  # requests
PASSES = 5  # over a folder that others fill meanwhile, or whose server skips names while others go


async def remove(session: Session, path: bytes, name: str) -> None:
    """Remove what is at a path, with all it holds, if it is there."""
    found = await find(session, path, name)
    if found is None:
        return
    if is_folder(found):
        await _remove_folder(session, path, name)
    else:
        await remove_file(session, path, name)


async def _remove_folder(session: Session, path: bytes, name: str) -> None:
    for left in reversed(range(PASSES)):
        with suppress(EntryNotFound):
            await _empty(session, path, name)
        try:
            await remove_folder(session, path, name)
            return
        except Failure:
            if not left:
                raise


async def remove_folder(session: Session, path: bytes, name: str) -> None:
    """Remove an empty folder, if it is there; Failure when it holds anything."""
    with suppress(EntryNotFound):
        await session.ask(session.client.rmdir(path), name)


async def _empty(session: Session, path: bytes, name: str) -> None:
    """Remove what a folder holds: files as they are listed, then one folder after the other."""
    folders: list[bytes] = []
    async with aclosing(scan(session, path, name)) as batches:
        async for batch in batches:
            folders += [raw.name for raw in batch if is_folder(raw.attributes)]
            await _do_all(
                (raw for raw in batch if not is_folder(raw.attributes)),
                lambda raw: remove_file(session, path + b"/" + raw.name, name),
            )
            deadlines.check()
    for folder in folders:
        await _remove_folder(session, path + b"/" + folder, name)


async def _do_all(entries: Iterable[RawEntry], work: Callable[[RawEntry], Awaitable[None]]) -> None:
    """Do all, AT_ONCE at a time; the first failure, but not before the others have ended."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def do(entry: RawEntry) -> None:
        async with turns:
            await work(entry)

    results = await asyncio.gather(*(do(entry) for entry in entries), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def is_empty(session: Session, path: bytes, name: str) -> bool:
    """Whether a folder holds nothing at all."""
    async with aclosing(scan(session, path, name)) as batches:
        async for _ in batches:
            return False
    return True
