"""Names for entries whose own name is taken."""

from __future__ import annotations

from mangrove.core.paths import MAX_NAME_BYTES

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
