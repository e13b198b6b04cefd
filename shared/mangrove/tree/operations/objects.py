"""The wire form of one file or folder (behaviour 5.0)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from mangrove.drivers.base import Capacity, Entry

ZERO_TIME = "0001-01-01T00:00:00Z"
FOLDER = 1
_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z


def get_type_code(codes: Mapping[str, int], name: str, is_dir: bool) -> int:
    """The type code of an entry: 1 for a folder, else by extension, 0 when unknown."""
    return FOLDER if is_dir else codes.get(name.rpartition(".")[2].lower(), 0)


def format_time(seconds: float) -> datetime | str:
    """A time for the wire; the zero time when it is not known, or before the year 1 or after 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else ZERO_TIME
    except (ValueError, OverflowError, OSError):
        return ZERO_TIME


def make_row(codes: Mapping[str, int], entry: Entry, sign: str = "", thumb: str = "") -> dict[str, Any]:
    """The object record of an entry; a size that is not known is 0."""
    hashes = dict(entry.hashes) if entry.hashes else None
    modified = format_time(entry.modified)
    return {
        "name": entry.name,
        "size": entry.size or 0,
        "is_dir": entry.is_dir,
        "modified": modified,
        "created": format_time(entry.created) if entry.created else modified,
        "sign": sign,
        "thumb": thumb,
        "type": get_type_code(codes, entry.name, entry.is_dir),
        "hashinfo": orjson.dumps(hashes).decode() if hashes else "null",
        "hash_info": hashes,
    }


def encode_rows(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows with commas between them."""
    return orjson.dumps(list(rows), option=_OPTIONS)[1:-1]


class Rows:
    """Rows of an answer that are still to be encoded: pieces of JSON objects with commas between them, none empty."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self.pieces = pieces


def join_rows(*pieces: bytes) -> orjson.Fragment:
    """Pieces of encoded rows as one JSON array, ready to be put into an answer."""
    return orjson.Fragment(b"[" + b",".join(piece for piece in pieces if piece) + b"]")


def make_capacity_row(space: Capacity) -> dict[str, int]:
    """The `mount_details` of a storage."""
    return {"total_space": space.total, "used_space": space.used, "free_space": space.free}
