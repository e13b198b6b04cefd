"""Names for entries whose own name is taken.

Where the caller may write but not read, in a locked or reserved folder or with a hidden name, a new entry never
replaces another one. If its name is taken it gets another name, and the answer is the same, so that a caller cannot
discover names by creating entries.
"""

from __future__ import annotations

from secrets import token_hex

from mangrove.core.paths import MAX_NAME_BYTES, TreePath
from mangrove.core.problems import NameConflict
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import find_entry
from mangrove.tree.mounts import StoragePath

MAX_NUMBERED_NAMES = 100  # tried for an entry whose name is taken


def list_free_names(name: str, is_dir: bool) -> list[str]:
    """Return the names to try for an entry: its own name, then names with a number before the suffix."""
    stem, dot, suffix = ("", "", "") if is_dir else name.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (name, "")
    names = [name]
    for number in range(2, MAX_NUMBERED_NAMES + 2):
        tail = f" ({number}){suffix}"
        names.append(stem.encode()[: MAX_NAME_BYTES - len(tail.encode())].decode(errors="ignore") + tail)
    return names


async def choose_path(
    access: PathAccess, storage_path: StoragePath, *, is_folder: bool
) -> tuple[PathAccess, StoragePath]:
    """Return the path of a new entry: the requested path, or another name if an invisible entry has it."""
    if access.tree.rules.is_empty or access.path == access.base or access.share is not None:
        return access, storage_path
    folder, storage_folder = access.with_path(storage_path.mount.path), storage_path.with_path(TreePath("/"))
    names = storage_path.path[1:].split("/") if storage_path.path != "/" else []
    for position, name in enumerate(names, 1):
        is_inner = position < len(names)
        free_name = await choose_name(folder, storage_folder, name, is_folder=is_folder or is_inner)
        folder, storage_folder = folder.child(free_name), storage_folder.child(free_name)
    return folder, storage_folder


async def choose_name(folder: PathAccess, storage_folder: StoragePath, name: str, *, is_folder: bool) -> str:
    """Return the name of a new entry: `name`, or another one if the caller must not learn that it is taken.

    A folder is merged into an existing one. Raise NameConflict for a hidden name, taken or not, if the other name would
    be visible.
    """
    target = folder.child(name)
    if target.may_read():
        return name
    free_name = _make_free_name(name)
    if folder.child(free_name).may_read():
        if target.is_hidden():
            raise NameConflict
        return name
    if target.is_mount_or_ancestor():
        return name if is_folder else free_name
    entry = await find_entry(storage_folder.child(name))
    return name if entry is None or (is_folder and entry.is_dir) else free_name


async def choose_free_name(access: PathAccess, storage_path: StoragePath) -> str:
    """Return the name of a new file that replaces nothing: that of the path, or another one if it is taken."""
    is_taken = access.is_mount_or_ancestor() or await find_entry(storage_path) is not None
    return _make_free_name(access.path.name) if is_taken else access.path.name


def _make_free_name(name: str) -> str:
    """Return a free name with the same extension."""
    stem, dot, extension = name.rpartition(".")
    if not stem:
        stem, dot, extension = name, "", ""
    tail = f" ({token_hex(4)}){dot}{extension}"[-MAX_NAME_BYTES // 2 :]
    stem_bytes = max(MAX_NAME_BYTES - len(tail.encode()), 0)
    return stem.encode()[:stem_bytes].decode(errors="ignore") + tail
