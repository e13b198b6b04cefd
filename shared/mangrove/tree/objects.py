"""The wire form of one file or folder (behaviour 5.0)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from mangrove.drivers.base import Capacity, Entry

ZERO_TIME = "0001-01-01T00:00:00Z"
FOLDER = 1


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
    return {
        "name": entry.name,
        "size": entry.size or 0,
        "is_dir": entry.is_dir,
        "modified": format_time(entry.modified),
        "created": format_time(entry.created or entry.modified),
        "sign": sign,
        "thumb": thumb,
        "type": get_type_code(codes, entry.name, entry.is_dir),
        "hashinfo": orjson.dumps(hashes).decode(),
        "hash_info": hashes,
    }


def make_capacity_row(space: Capacity) -> dict[str, int]:
    """The `mount_details` of a storage."""
    return {"total_space": space.total, "used_space": space.used, "free_space": space.free}
