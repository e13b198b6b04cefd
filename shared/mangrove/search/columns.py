"""Entries as columns of the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from mangrove.drivers.base import Entry
from mangrove.records.index_changes import IndexedName
from mangrove.search.names import encode_name, make_legible
from mangrove.search.words import fold

MAX_SIZE = (1 << 63) - 1
MAX_SECONDS = 1e12  # since the epoch
PRECISION = 1024.0  # parts of a second: further digits would take a tenth of the file and are not used
# between the times that a write and the storage tell, for whole seconds: S3 does not tell a write the time of the file
MAX_SECONDS_APART = 2
TIME_CONDITION = f"""(known.modified = new.modified
    OR (new.modified = floor(new.modified) AND abs(known.modified - new.modified) < {MAX_SECONDS_APART}))"""
_GET_SIZE = attrgetter("size")

_Named: TypeAlias = Entry | IndexedName


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """Entries as columns of the index."""

    names: list[str | None]
    folded: list[str]
    is_dir: list[bool]
    sizes: list[int | None]
    modified: list[float]
    changed_by: list[int | None]


def make_columns(entries: Sequence[_Named]) -> IndexColumns:
    """Return the columns of entries. Pass some thousands at a time, since each takes a microsecond."""
    names = [entry.name for entry in entries]
    joined = "\n".join(names)
    folded = make_legible(fold(joined)).split("\n")  # folded together: no character composes across a line feed
    if len(folded) != len(names):
        folded = [make_legible(fold(name)) for name in names]
    stored = names if encode_name(joined) == joined else map(encode_name, names)
    return IndexColumns(
        [None if name == other else name for name, other in zip(stored, folded, strict=True)],
        folded,
        [entry.is_dir for entry in entries],
        [size if size is None or -1 < size <= MAX_SIZE else None for size in map(_GET_SIZE, entries)],
        _round_times([entry.modified for entry in entries]),
        [getattr(entry, "changed_by", None) for entry in entries],
    )


def read_names(options: str = "") -> str:
    """Return the source of the names in files, with the column `changed_by`, which older files do not have."""
    files = f"FROM read_parquet(?, union_by_name = true{options})"
    return f"({files} UNION ALL BY NAME SELECT NULL::BIGINT AS changed_by WHERE FALSE)"


def is_same_time(known: float, new: float) -> bool:
    """True if the index has `known` as the time of a file that a storage tells as `new`, as TIME_CONDITION tests it."""
    return known == new or (new.is_integer() and abs(known - new) < MAX_SECONDS_APART)


def _round_times(times: Sequence[float]) -> list[float]:
    try:
        return [int(time * PRECISION) / PRECISION for time in times]
    except (ValueError, OverflowError):  # not a number, or not a time
        return [time if -MAX_SECONDS < time < MAX_SECONDS else 0.0 for time in times]
