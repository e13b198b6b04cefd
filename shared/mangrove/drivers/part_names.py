"""Names of files that are not whole: a file gets its own name in one step, when it is. And the folder of the trash."""

from __future__ import annotations

from secrets import token_hex

from mangrove.core.paths import TRASH as TRASH
from mangrove.core.paths import TreePath, is_trash_name
from mangrove.core.problems import StorageForbidden

PART = ".mangrove-"  # prefix of names of unfinished or internal files
TRASH_FOLDER = TreePath(f"/{TRASH}")
"""The folder of a storage that holds what was removed. No listing shows it; `tree.mounts` lets nobody into it."""


def make_part_name() -> str:
    """Return a new name for an unfinished file."""
    return f"{PART}{token_hex(12)}.part"


def is_part(name: str) -> bool:
    """True if a name of a listing must not be shown."""
    return name.startswith(PART)


def has_part(path: TreePath) -> bool:
    """Return True if a folder on the way to a path, or its own name, is not to be seen. The trash is left out."""
    inner = path.below(TRASH_FOLDER) if path.within(TRASH_FOLDER) else path
    return f"/{PART}" in inner


def leads_to_trash(path: str) -> bool:
    """Return True if a path is the folder of the trash or below it, also of a storage with another root, and in a
    spelling that a server may take for the same."""
    return TRASH in path.casefold() and any(map(is_trash_name, path.split("/")))


def refuse_part_name(path: TreePath) -> None:
    """Refuse the names of unfinished files, which listings leave out."""
    if has_part(path):
        raise StorageForbidden(f"names that begin with {PART} are reserved for unfinished files")
