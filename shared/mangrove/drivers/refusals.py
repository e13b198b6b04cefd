"""Checks before a change, for storages that do not refuse it themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    BadRequest,
    EntryChanged,
    EntryExists,
    EntryNotFound,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers.base import Entry

Stat = Callable[[TreePath], Awaitable[Entry]]


async def refuse_existing(stat: Stat, path: TreePath, *, but_files: bool = False) -> None:
    """Raise EntryExists if the name is taken, or taken by anything but a file."""
    try:
        entry = await stat(path)
    except EntryNotFound:
        return
    if entry.is_dir or not but_files:
        raise EntryExists


def refuse_inside_itself(path: TreePath, target: TreePath) -> None:
    """Raise StorageProblem if a folder would be moved or copied into itself."""
    if target.within(path):
        raise StorageProblem("the destination folder is a subfolder of the source folder")


def refuse_other_size(size: int, announced: int | None) -> None:
    """Raise BadRequest if a body has another size than announced."""
    if announced is not None and size != announced:
        raise BadRequest(f"the body has {size} bytes instead of the announced {announced}")


def refuse_changed(entry: Entry, shown: Entry | None) -> None:
    """Raise EntryChanged if a file was replaced, as far as etag, size and time show it."""
    if shown is None:
        return
    if entry.etag and shown.etag:
        is_same = entry.etag == shown.etag
    else:
        is_same = (entry.size, int(entry.modified)) == (shown.size, int(shown.modified))
    if entry.is_dir or not is_same:
        raise EntryChanged


def refuse_root_removal(path: TreePath) -> None:
    """Refuse to remove the root of a storage."""
    if path == "/":
        raise StorageForbidden("delete root folder is not allowed")
