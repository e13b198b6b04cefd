"""Paths as sort keys: DynamoDB takes 1,024 bytes, a path may have four times as many."""

from __future__ import annotations

from hashlib import sha256

from mangrove.core.paths import TreePath

MAX_PLAIN_KEY_BYTES = 900  # of a path that stand in its key as they are


def make_key(path: str) -> str:
    """Return the key of a path, which no other path has."""
    prefix = make_prefix(path)
    return prefix if prefix == path else f"{prefix}//{_digest(path)}"  # no path has an empty segment


def make_prefix(text: str) -> str:
    """Return the beginning of the keys of all paths that begin with `text`; a few others may begin so, too."""
    raw = text.encode()
    return text if len(raw) <= MAX_PLAIN_KEY_BYTES else raw[:MAX_PLAIN_KEY_BYTES].decode(errors="ignore")


def make_entry_key(path: TreePath) -> str:
    """Return a key by which the entries of a folder stand together, and all below a folder as well."""
    if path == "/":
        return "/"
    text = f"{make_entries_prefix(path.parent)}{path.name}"
    prefix = make_prefix(text)
    return prefix if prefix == text else f"{prefix}///{_digest(path)}"


def make_entries_prefix(folder: TreePath) -> str:
    """Return the beginning of the entry keys of a folder's entries, to be shortened by `make_prefix`."""
    return "//" if folder == "/" else f"{folder}//"


def _digest(path: str) -> str:
    return sha256(path.encode()).hexdigest()
