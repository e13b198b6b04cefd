"""Names of files that are not whole: a file gets its own name in one step, when it is."""

from __future__ import annotations

from secrets import token_hex

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageForbidden

PART = ".mangrove-"  # names of files that are not whole, or not to be seen, begin so


def make_part_name() -> str:
    """A new name for a file that is not whole."""
    return f"{PART}{token_hex(12)}.part"


def is_part(name: str) -> bool:
    """Return True if a name of a listing is not to be seen."""
    return name.startswith(PART)


def refuse_part_name(path: TreePath) -> None:
    """Refuse the names of unfinished files, which listings leave out."""
    if f"/{PART}" in path:
        raise StorageForbidden(f"names that begin with {PART} are kept for unfinished files")
