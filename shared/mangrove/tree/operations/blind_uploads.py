"""What is put where the caller may write but not know what is there: a folder with a password or a list of readers, or
a hidden name.

Such a drop never replaces anything, and its answer tells nothing: what has a taken name is kept under another one,
as two things cannot have the same. So a caller cannot find out names by putting things there.
"""

from __future__ import annotations

from secrets import token_hex

from mangrove.core.paths import MAX_NAME_BYTES, TreePath
from mangrove.core.problems import EntryNotFound, NameConflict
from mangrove.tree.access import PathAccess, lookup
from mangrove.tree.mounts import StoragePath


async def choose_path(
    access: PathAccess, storage_path: StoragePath, *, is_folder: bool
) -> tuple[PathAccess, StoragePath]:
    """Where something new goes that the caller puts at a path: there, or beside what may not be known to be there."""
    if access.rules.is_empty or access.path == access.base:
        return access, storage_path
    mount_path = storage_path.mount.path
    place, there = access.with_path(mount_path), storage_path.with_path(TreePath("/"))
    names = storage_path.path[1:].split("/") if storage_path.path != "/" else []
    for position, name in enumerate(names, 1):
        chosen = await choose_name(place, there, name, is_folder=is_folder or position < len(names))
        place, there = place.child(chosen), there.child(chosen)
    return place, there


async def choose_name(folder: PathAccess, storage_path: StoragePath, name: str, *, is_folder: bool) -> str:
    """The name of something new in a folder: `name`, or another one where the caller may not know that it is taken.

    A folder that is there takes a folder. NameConflict for a hidden name, whatever has it, where the other name would
    be seen.
    """
    wanted = folder.child(name)
    if wanted.may_read():
        return name
    other = _make_other_name(name)
    if folder.child(other).may_read():
        if wanted.is_hidden():
            raise NameConflict
        return name
    if wanted.is_mount_or_ancestor():
        return name if is_folder else other
    try:
        found = await lookup(storage_path.child(name))
    except EntryNotFound:
        return name
    return name if is_folder and found.is_dir else other


def _make_other_name(name: str) -> str:
    """A name that nothing has, with the same ending."""
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    tail = f" ({token_hex(4)}){dot}{ending}"[-MAX_NAME_BYTES // 2 :]
    room = MAX_NAME_BYTES - len(tail.encode())
    return stem.encode()[: max(room, 0)].decode(errors="ignore") + tail
