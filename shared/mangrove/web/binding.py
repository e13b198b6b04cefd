"""Small checks of input whose messages clients know (behaviour 1.4)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from mangrove.problems import BadRequest

LARGEST_ID = 2**53


def required(kind: str, **fields: str) -> None:
    """BadRequest with one validator line for each empty field; `kind` is the record's name in the message."""
    lines = [
        f"Key: '{kind}.{name}' Error:Field validation for '{name}' failed on the 'required' tag"
        for name, value in fields.items()
        if not value
    ]
    if lines:
        raise BadRequest("\n".join(lines))


def whole(text: str) -> int:
    """An id out of a query; BadRequest when it is none."""
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 16 or int(text) > LARGEST_ID:
        raise BadRequest(f'strconv.Atoi: parsing "{text[:40]}": invalid syntax')
    return int(text)


async def _id(id: str = "") -> int:
    return whole(id)


Id = Annotated[int, Depends(_id)]
