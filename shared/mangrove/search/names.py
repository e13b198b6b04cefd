"""Names as the index stores them: in UTF-8, for any name of a storage, and reversible.

Neither Parquet nor JSON can hold halves of surrogate pairs, which represent bytes that are not UTF-8, or NUL. They are
written as MARK and four hexadecimal digits, and so is MARK itself. Paths are stored in the same way, segment by
segment. No other module knows the format.
"""

from __future__ import annotations

import re

MARK = "\x1a"  # SUBSTITUTE, which no name has in practice
_REFUSED = re.compile("[\0\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def encode_name(name: str) -> str:
    """Return a name or path of a storage in the form of the index."""
    return _REFUSED.sub(lambda match: f"{MARK}{ord(match[0]):04x}", name)


def decode_name(stored: str) -> str:
    """Return the name or path that was passed to `encode_name`."""
    if MARK not in stored:
        return stored
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), stored)


def make_legible(text: str) -> str:
    """Return a folded name in the form of the index. The search finds it by its legible part."""
    return _REFUSED.sub(lambda match: repr(match[0])[1:-1], text)
