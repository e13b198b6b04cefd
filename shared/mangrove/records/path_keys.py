"""Paths as sort keys: DynamoDB accepts 1,024 bytes, a path may have four times as many."""

from __future__ import annotations

from hashlib import sha256

from mangrove.core.paths import TreePath

MAX_PLAIN_KEY_BYTES = 900  # of a path that are copied into its key


def make_key(path: str) -> str:
    """Return the key of a path. It is unique."""
    prefix = make_prefix(path)
    return prefix if prefix == path else f"{prefix}//{_digest(path)}"  # no path has an empty segment


def make_prefix(text: str) -> str:
    """Return the prefix of the keys of all paths that start with `text`. A few other keys may have it, too."""
    raw = text.encode()
    return text if len(raw) <= MAX_PLAIN_KEY_BYTES else raw[:MAX_PLAIN_KEY_BYTES].decode(errors="ignore")


def make_entry_key(path: TreePath) -> str:
    """Return a key that sorts the entries of a folder together, and everything below a folder as well."""
    if path == "/":
        return "/"
    text = f"{make_entries_prefix(path.parent)}{path.name}"
    prefix = make_prefix(text)
    return prefix if prefix == text else f"{prefix}///{_digest(path)}"


def make_entries_prefix(folder: TreePath) -> str:
    """Return the prefix of the entry keys of a folder's entries, before `make_prefix` shortens it."""
    return "//" if folder == "/" else f"{folder}//"


def _digest(path: str) -> str:
    return sha256(path.encode()).hexdigest()
