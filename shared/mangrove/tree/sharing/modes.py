"""The modes of a share link: visitors read, upload without seeing the content, or do both."""

from __future__ import annotations

READ, DROP, BOTH = MODES = ("read", "drop", "both")


def takes_uploads(mode: str) -> bool:
    """True if visitors upload files."""
    return mode in (DROP, BOTH)


def shows_content(mode: str) -> bool:
    """True if visitors see the content."""
    return mode in (READ, BOTH)
