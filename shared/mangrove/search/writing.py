"""Rows written to new segments.

Names: `folder UINTEGER, name VARCHAR, folded VARCHAR, is_dir BOOLEAN, size BIGINT, modified DOUBLE`; `name` is NULL if
it is equal to `folded`, `size` if it is unknown, `modified` is in seconds since the epoch. Folders: `id UINTEGER, path
VARCHAR`; the root of the storage is `/`. Names and paths are in the format of `search.names`.

Rows go through a text file of columns with a batch per line: one call of the interpreter handles hundreds of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from mangrove.drivers.base import Entry
from mangrove.search.calls import Statement
from mangrove.search.columns import make_columns
from mangrove.search.index import search_index
from mangrove.search.names import encode_name

ENTRIES_PER_LINE = 512  # entries per line
MAX_LINE_BYTES = 1 << 20  # bytes; DuckDB has two such buffers
ROWS_PER_GROUP = 30_720  # rows: larger groups take more memory to write and are not faster to read

# DuckDB has two buffers of maximum_object_size
_NAMES = """
select
    f as folder, unnest(n) as name, unnest(g) as folded, unnest(d) as is_dir, unnest(s) as size, unnest(m) as modified
from read_json(?, format = 'newline_delimited', maximum_object_size = 2097152, columns = {
    f: 'uinteger', n: 'varchar[]', g: 'varchar[]', d: 'boolean[]', s: 'bigint[]', m: 'double[]'
})
"""
_FOLDERS = """
select unnest(i) as id, unnest(p) as path
from read_json(?, format = 'newline_delimited', maximum_object_size = 2097152, columns = {
    i: 'uinteger[]', p: 'varchar[]'
})
"""


class _Writer:
    """An unfinished text file, and `<name>.parquet`, which is made of it."""

    rows: str  # the query of a kind of lines

    def __init__(self, folder: Path, name: str) -> None:
        self._text = folder / f"{name}.json"
        self._target = folder / f"{name}.parquet"
        self._file = self._text.open("wb")
        self.count = 0

    def _write(self, **columns: Any) -> int:
        """Add a line unless it is longer than MAX_LINE_BYTES. Return its length."""
        line = orjson.dumps(columns)
        if len(line) <= MAX_LINE_BYTES:
            self._file.write(line + b"\n")
        return len(line)

    def plan_copy(self) -> tuple[Statement, Path]:
        """Return the statement that makes the file of all lines, possibly without rows, and the path of that file."""
        self._file.close()
        return (make_copy(self.rows), [str(self._text), str(self._target)]), self._target

    def close(self) -> None:
        """Remove unfinished files. Call it if `finish` is not reached."""
        self._file.close()
        self._text.unlink(missing_ok=True)


class SegmentWriter(_Writer):
    """A writer of the names of folders to `<name>.parquet` in a folder."""

    rows = _NAMES

    def add(self, folder_id: int, entries: Sequence[Entry]) -> None:
        """Add entries of a folder: one batch of its listing."""
        for start in range(0, len(entries), ENTRIES_PER_LINE):
            self._add(folder_id, entries[start : start + ENTRIES_PER_LINE])
        self.count += len(entries)

    def _add(self, folder_id: int, entries: Sequence[Entry]) -> None:
        rows = make_columns(entries)
        length = self._write(f=folder_id, n=rows.names, g=rows.folded, d=rows.is_dir, s=rows.sizes, m=rows.modified)
        if length > MAX_LINE_BYTES and len(entries) > 1:
            half = len(entries) // 2
            self._add(folder_id, entries[:half])
            self._add(folder_id, entries[half:])


class FolderWriter(_Writer):
    """A writer of folders to `<name>.parquet` in a folder."""

    rows = _FOLDERS

    def add(self, folders: Iterable[tuple[int, str]]) -> None:
        """Add ids and paths; pass some thousands at a time."""
        rows = list(folders)
        step = MAX_LINE_BYTES // (6 * 4096)  # of the longest paths, with every byte escaped
        for start in range(0, len(rows), step):
            batch = rows[start : start + step]
            self._write(i=[id for id, _ in batch], p=[encode_name(path) for _, path in batch])
        self.count += len(rows)


async def finish(*writers: _Writer) -> list[Path]:
    """Write the files and return them."""
    planned = [writer.plan_copy() for writer in writers]
    await search_index().database.write([statement for statement, _ in planned])
    for writer in writers:
        writer.close()
    return [path for _, path in planned]


def make_copy(rows: str, codec: str = "uncompressed", more: str = "") -> str:
    """Return a statement that writes rows. Its last parameter is the file, or the folder if `more` limits the files."""
    options = f"parquet_version v2, row_group_size {ROWS_PER_GROUP}, compression {codec}{more}"
    return f"copy ({rows}) to ? (format parquet, {options})"
