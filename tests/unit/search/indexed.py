"""Storages with names in the index, and the expected results of searches, computed in plain Python."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.search.database import Database
from mangrove.search.index import SearchIndex
from mangrove.search.names import encode_name, make_legible
from mangrove.search.query import Filters, Hit, SearchSource
from mangrove.search.segments import IndexManifest, Segments
from mangrove.search.words import fold

NAMES = "folder UINTEGER, name VARCHAR, folded VARCHAR, is_dir BOOLEAN, size BIGINT, modified DOUBLE"


@dataclass(frozen=True)
class Row:
    """A name in a folder, inside its storage."""

    path: str
    name: str
    is_dir: bool = False
    size: int | None = 1
    modified: float = 1.0

    @property
    def folded(self) -> str:
        return make_legible(fold(self.name))

    @property
    def columns(self) -> tuple[Any, ...]:
        name, folded = encode_name(self.name), self.folded
        return None if folded == name else name, folded, self.is_dir, self.size, self.modified


class NotingDatabase(Database):
    """Keeps the statements that were run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.statements: list[str] = []

    async def run(self, statement: str, parameters: Sequence[Any] = (), *, seconds: float = 2.0) -> list[Any]:
        self.statements.append(statement)
        return await super().run(statement, parameters, seconds=max(seconds, 30))


@dataclass
class Storage:
    """One storage: what the segments say of it, what the tables add, and which of its folders do not count."""

    id: int
    mount: str = "/"
    indexed: list[Row] = field(default_factory=list)
    fresh: list[Row] = field(default_factory=list)
    masked: list[tuple[str, bool]] = field(default_factory=list)
    others: tuple[str, ...] = ()

    def select(self) -> list[Row]:
        """The rows that count."""
        rows = [row for row in self.indexed if not any(_is_masked(row.path, *mask) for mask in self.masked)]
        return [row for row in rows + self.fresh if not self._is_elsewhere(row)]

    def _is_elsewhere(self, row: Row) -> bool:
        path = row.path.rstrip("/") + "/" + row.name
        return any(path == other or f"{row.path}/".startswith(f"{other}/") for other in self.others)

    def make_place(self, segments: Segments | None, root: str = "/") -> SearchSource:
        others = tuple(TreePath(other) for other in self.others)
        stride = 0 if segments is None else segments.manifest.folder_count
        has_delta = bool(self.fresh or self.masked)
        roots = (TreePath(root),)
        return SearchSource(self.id, self.id, TreePath(self.mount), roots, segments, others, stride, has_delta)


def _is_masked(path: str, mask: str, deep: bool) -> bool:
    return path == mask or (deep and path.startswith(mask.rstrip("/") + "/"))


class Index:
    """Segments and tables for some storages, in the present runtime."""

    def __init__(self, folder: Path, storages: Sequence[Storage]) -> None:
        self.storages = storages
        self.database = NotingDatabase(folder)
        runtime.put(SearchIndex, SearchIndex(self.database))
        self._folder = folder
        self._segments = {stored.id: self._write(stored) if stored.indexed else None for stored in storages}
        asyncio.run(self.database.change([stored for storage in storages for stored in _lay_over(storage)], seconds=30))

    def _write(self, storage: Storage) -> Segments:
        """Two files of names, with row groups as small as they get."""
        paths = sorted({row.path for row in storage.indexed}, key=lambda path: (path.count("/"), path))
        rows = [(paths.index(row.path), *row.columns) for row in storage.indexed]
        rows.sort(key=lambda row: row[0])
        half = len(rows) // 2
        names = [self._copy(f"{storage.id}-{n}", NAMES, part) for n, part in enumerate((rows[:half], rows[half:]))]
        folders = self._copy(f"{storage.id}", "id UINTEGER, path VARCHAR", list(enumerate(map(encode_name, paths))))
        manifest = IndexManifest(names=[], folders=[], count=len(rows), folder_count=len(paths), began=0, finished="")
        return Segments(storage.id, manifest, tuple(names), (folders,))

    def _copy(self, name: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> Path:
        file = self._folder / f"{name}.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE written ({columns})")
            if rows:
                connection.execute(*_insert("written", rows))
            connection.execute("COPY written TO ? (FORMAT parquet, ROW_GROUP_SIZE 2048)", [str(file)])
        return file

    def make_places(self, roots: dict[int, str] | None = None) -> list[SearchSource]:
        """All storages, or those with a root here."""
        chosen = roots if roots is not None else {stored.id: "/" for stored in self.storages}
        return [
            stored.make_place(self._segments[stored.id], chosen[stored.id])
            for stored in self.storages
            if stored.id in chosen
        ]

    def find(
        self, places: Sequence[SearchSource], filters: Filters, sees: Callable[[Hit], bool] = lambda hit: True
    ) -> list[Hit]:
        """All hits, in order."""
        roots = {place.storage_id: place.roots[0] for place in places}
        hits = [
            (row, hit)
            for stored in self.storages
            if stored.id in roots
            for row in stored.select()
            if is_below(row.path, roots[stored.id]) and passes(row, filters)
            if sees(hit := make_hit(stored, row))
        ]
        hits.sort(
            key=lambda pair: (filters.keywords.rank(pair[0].folded), pair[0].folded, pair[1].parent, pair[1].name)
        )
        return [hit for _, hit in hits]


def _lay_over(storage: Storage) -> list[tuple[str, list[Any]]]:
    paths = list(dict.fromkeys(row.path for row in storage.fresh))
    first = storage.id * 1000
    folders = [(storage.id, first + number, None, encode_name(path)) for number, path in enumerate(paths)]
    names = [(storage.id, first + paths.index(row.path), *row.columns, None) for row in storage.fresh]
    hidden = [(storage.id, encode_name(path)) for path, deep in storage.masked if deep]
    hidden_names = [
        (storage.id, encode_name(row.path), encode_name(row.name))
        for row in storage.indexed
        if (row.path, False) in storage.masked
    ]
    tables = {"folders": folders, "names": names, "hidden": hidden, "hidden_names": hidden_names}
    return [_insert(table, rows) for table, rows in tables.items() if rows]


def _insert(table: str, rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return f"INSERT INTO {table} SELECT {', '.join('unnest(?)' for _ in columns)}", columns


def make_hit(storage: Storage, row: Row) -> Hit:
    path = storage.mount.rstrip("/") + row.path
    return Hit(TreePath(path), row.name, row.is_dir, row.size, row.modified)


def is_below(path: str, root: str) -> bool:
    return root == "/" or path == root or path.startswith(f"{root}/")


def passes(row: Row, filters: Filters) -> bool:
    """Return True if the filters pass, and the keywords by their own `matches`."""
    is_sized = filters.min_size is not None or filters.max_size is not None
    is_timed = filters.since is not None or filters.until is not None
    refusals = (
        filters.scope == 1 and not row.is_dir,
        filters.scope > 1 and row.is_dir,
        (is_sized or filters.extensions) and row.is_dir,
        is_sized and row.size is None,
        filters.min_size is not None and (row.size or 0) < filters.min_size,
        filters.max_size is not None and (row.size or 0) > filters.max_size,
        is_timed and row.modified == 0,
        filters.since is not None and row.modified < filters.since,
        filters.until is not None and row.modified > filters.until,
        filters.extensions and not re.search(rf"\.({'|'.join(map(re.escape, filters.extensions))})\Z", row.folded),
    )
    return not any(refusals) and filters.keywords.matches(row.folded)
