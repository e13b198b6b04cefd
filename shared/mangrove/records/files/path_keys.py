"""Paths as sort keys: DynamoDB takes 1,024 bytes, a path may have four times as many."""

from __future__ import annotations

from hashlib import sha256

LONGEST = 900  # bytes of a path that stand in its key as they are


def make_key(path: str) -> str:
    """The key of a path, which no other path has."""
    kept = make_prefix(path)
    return kept if kept == path else f"{kept}//{sha256(path.encode()).hexdigest()}"  # no path has an empty segment


def make_prefix(text: str) -> str:
    """What the keys of all paths begin with that begin with `text`; those of few others may, too."""
    raw = text.encode()
    return text if len(raw) <= LONGEST else raw[:LONGEST].decode(errors="ignore")
