"""Integers in text of others: headers, queries, lines of a configuration."""

from __future__ import annotations


def parse_integer(text: str, *, signed: bool = False, digits: int = 18) -> int | None:
    """The integer that `text` is, else None. Only ASCII digits count, no blanks and no underscores.

    `signed` allows one leading `-` or `+`; `digits` bounds the length of `text`, its sign included.
    """
    if len(text) > digits or not text.isascii():
        return None
    unsigned = text[1:] if signed and text[:1] in ("-", "+") else text
    return int(text) if unsigned.isdecimal() else None
