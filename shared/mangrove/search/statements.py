"""The texts of one search's statements. Client input and paths are always parameters.

A hit in a statement: `place` (its number), `parent` (the tree path of its folder), `name`, `folded`, `is_dir`, `size`,
`modified`, `rank`. Names and paths are in the format of `search.names`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mangrove.core.paths import TreePath
from mangrove.drivers.base import ROOT
from mangrove.search.hidden_rows import HiddenRows
from mangrove.search.names import encode_name
from mangrove.search.segments import Segments
from mangrove.search.words import ALL, Keywords, SqlCondition, join_conditions, unite

ORDER = "rank, folded, parent, name"
_SHOWN = "name, folded, is_dir, size, modified"
_TESTED = "name, is_dir, size, modified"

_UNHIDDEN = """NOT EXISTS (FROM hidden WHERE hidden.base = ? AND hidden.path = folders.path)
AND NOT EXISTS (FROM hidden WHERE hidden.base = ?
AND folders.path >= hidden.path || '/' AND folders.path < hidden.path || '0')"""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a search.

    `scope`: 0 all, 1 folders, else files. `extensions`: of `words.parse_extensions`. Extensions and sizes (bytes) match
    files only, and not files of unknown size. `since` and `until`, both inclusive: seconds since the epoch; entries
    without a known time match neither.
    """

    keywords: Keywords
    scope: int = 0
    extensions: tuple[str, ...] = ()
    min_size: int | None = None
    max_size: int | None = None
    since: float | None = None
    until: float | None = None

    @property
    def condition(self) -> SqlCondition:
        """Return all filters as a condition on the columns of the index."""
        return join_conditions((*self._make_parts(), self.keywords.condition))

    def _make_parts(self) -> Iterator[SqlCondition]:
        if self.scope:
            yield SqlCondition("is_dir" if self.scope == 1 else "NOT is_dir")
        elif self.extensions or self.min_size is not None or self.max_size is not None:
            yield SqlCondition("NOT is_dir")
        if self.min_size is not None:
            yield SqlCondition("size >= ?", (self.min_size,))
        if self.max_size is not None:
            yield SqlCondition("size <= ?", (self.max_size,))
        if self.since is not None or self.until is not None:
            yield SqlCondition("modified <> 0")
        if self.since is not None:
            yield SqlCondition("modified >= ?", (self.since,))
        if self.until is not None:
            yield SqlCondition("modified <= ?", (self.until,))
        if self.extensions:
            text = " OR ".join("ends_with(folded, ?)" for _ in self.extensions)
            yield SqlCondition(f"({text})", tuple(f".{extension}" for extension in self.extensions))


@dataclass(frozen=True, slots=True)
class SearchSource:
    """A place of a search: at and below `roots` in a storage. The tree path of its folder `p` is `mount / p`."""

    storage_id: int
    base: int  # the number of its rows in the tables of the database
    mount: TreePath
    roots: tuple[TreePath, ...]
    segments: Segments | None = None  # None if the tables have all of it
    others: tuple[TreePath, ...] = ()  # paths inside it at which other storages are mounted, which are left out
    stride: int = 0  # greater than all ids of folders of the segments
    has_delta: bool = False  # the tables say that some rows of the segments are hidden or have moved


@dataclass(frozen=True, slots=True)
class HitShare:
    """One of `count` parts of about the same size into which hits are divided."""

    number: int
    count: int

    @property
    def condition(self) -> SqlCondition:
        """Return the condition for the hits in this share."""
        return ALL if self.count == 1 else SqlCondition("hash(folded) % ? = ?", (self.count, self.number))


class Part(ABC):
    """The rows that one statement reads together. Each of its folders has a number of its own."""

    number: int
    limit: int  # numbers below it are dense

    @abstractmethod
    def select(
        self, where: SqlCondition, chosen: SqlCondition = ALL, more: SqlCondition = ALL, *, dense: bool = False
    ) -> SqlCondition:
        """Return the names that match `where` and `more`, conditions on names, and `chosen`, a condition on `folder`.

        The columns are `folder`, `path`, `parent` and those of a name. `dense`: all chosen numbers are below the limit.
        """

    @abstractmethod
    def make_ranges(self, table_count: int, size: int) -> Iterator[tuple[SqlCondition, bool]]:
        """Return conditions on `folder` that divide all folders into ranges of about `size`, each with True if all its
        numbers are below the limit. `table_count`: folders of the tables.
        """

    def select_hits(
        self, filters: Filters, hidden: HiddenRows | None = None, bound: SqlCondition = ALL
    ) -> SqlCondition:
        """Return the hits that are not hidden and satisfy `bound`, a condition on names."""
        chosen = hidden.condition if hidden is not None else ALL
        where = filters.condition if bound == ALL else join_conditions((bound, filters.condition))
        return self._rank(filters, self.select(where, chosen))

    def count(self, filters: Filters) -> SqlCondition:
        """Return the number of hits, as `hits`."""
        source = self.select(filters.condition)
        return SqlCondition(f"SELECT count(*) AS hits FROM ({source.text})", source.parameters)

    def select_few(self, filters: Filters, limit: int) -> SqlCondition:
        """Return at most `limit` hits. `parent` is NULL for a row that is no hit."""
        hits = self.select_hits(filters)
        return SqlCondition(f"SELECT * FROM ({hits.text}) LIMIT {limit}", hits.parameters)

    def _rank(self, filters: Filters, source: SqlCondition) -> SqlCondition:
        rank = filters.keywords.rank_expression
        text = f"SELECT {self.number} AS place, parent, {_SHOWN}, {rank.text} AS rank FROM ({source.text})"
        return SqlCondition(text, (*rank.parameters, *source.parameters))

    def count_by_folder(
        self, filters: Filters, chosen: tuple[SqlCondition, bool], hidable: SqlCondition
    ) -> SqlCondition:
        """Return `place`, `folder`, `parent`, the number of hits and that of hits to test in each chosen folder."""
        source = self.select(filters.condition, chosen[0], dense=chosen[1])
        counts = f"any_value(parent), count(*), count(*) FILTER (WHERE {hidable.text})"
        text = f"SELECT {self.number}, folder, {counts} FROM ({source.text}) GROUP BY folder"
        return SqlCondition(text, (*hidable.parameters, *source.parameters))

    def select_in_folders(self, filters: Filters, numbers: Sequence[int], more: SqlCondition) -> SqlCondition:
        """Return the columns that `more` and the tests need of hits that match `more`, in visible numbered folders."""
        bounds = "folder BETWEEN ? AND ? AND folder IN (SELECT unnest(?::UINTEGER[]))"
        chosen = SqlCondition(bounds, (min(numbers), max(numbers), list(numbers)))
        source = self.select(filters.condition, chosen, more, dense=max(numbers) < self.limit)
        return SqlCondition(f"SELECT folder, {_TESTED} FROM ({source.text})", source.parameters)


@dataclass(frozen=True, slots=True)
class TablesPart(Part):
    """All rows that the tables of the database have of some places: small storages, and additions to large ones."""

    number: int
    places: Sequence[SearchSource]
    limit: int = 0

    def select(
        self, where: SqlCondition, chosen: SqlCondition = ALL, more: SqlCondition = ALL, *, dense: bool = False
    ) -> SqlCondition:
        names = _select_names("names", where, join_conditions((more, chosen)))
        folders = self._select_folders()
        others = self._find_others("path = folder_path AND name = last")
        text = (
            "SELECT number AS folder, path, parent, n.name AS name, n.folded, n.is_dir, n.size, n.modified "
            f"FROM ({names.text}) AS n JOIN ({folders.text}) AS f ON number = folder WHERE {others.text}"
        )
        return SqlCondition(text, (*names.parameters, *folders.parameters, *others.parameters))

    def _select_folders(self) -> SqlCondition:
        """Return `number`, `base`, `path`, `parent` of the folders at and below the roots."""
        places = SqlCondition(
            "SELECT unnest(?::UINTEGER[]) AS base, unnest(?::VARCHAR[]) AS prefix",
            (
                [place.base for place in self.places],
                ["" if place.mount == "/" else encode_name(place.mount) for place in self.places],
            ),
        )
        conditions = [
            SqlCondition(f"(base <> ? OR {below.text})", (place.base, *below.parameters))
            for place in self.places
            if ROOT not in place.roots and (below := _make_below(place.roots))
        ]
        conditions.append(self._find_others("(path = other OR starts_with(path, other || '/'))"))
        where = join_conditions(conditions)
        parent = "CASE WHEN path <> '/' THEN prefix || path WHEN prefix = '' THEN '/' ELSE prefix END AS parent"
        text = f"SELECT number, base, path, {parent} FROM folders JOIN ({places.text}) USING (base) WHERE {where.text}"
        return SqlCondition(text, (*places.parameters, *where.parameters))

    def _find_others(self, match: str) -> SqlCondition:
        """Return the condition that leaves out places of other storages."""
        others = [(place.base, other) for place in self.places for other in place.others]
        if not others:
            return ALL
        columns = (
            [base for base, _ in others],
            [encode_name(path) for _, path in others],
            [encode_name(path.parent) for _, path in others],
            [encode_name(path.name) for _, path in others],
        )
        names = "unnest(?::UINTEGER[]) AS b, unnest(?::VARCHAR[]) AS other, unnest(?::VARCHAR[]) AS folder_path"
        return SqlCondition(
            f"NOT EXISTS (FROM (SELECT {names}, unnest(?::VARCHAR[]) AS last) WHERE b = base AND {match})", columns
        )

    def make_ranges(self, table_count: int, size: int) -> Iterator[tuple[SqlCondition, bool]]:
        count = table_count // size + 1
        for number in range(count):
            yield SqlCondition("folder % ? = ?", (count, number)) if count > 1 else ALL, False


@dataclass(frozen=True, slots=True)
class SegmentsPart(Part):
    """The rows of the segments of a place, without those that the tables hide, at the folder paths of the tables."""

    number: int
    place: SearchSource

    @property
    def limit(self) -> int:  # type: ignore[override]  # a property here
        return self.place.stride

    @property
    def segments(self) -> Segments:
        assert self.place.segments is not None
        return self.place.segments

    def select(
        self, where: SqlCondition, chosen: SqlCondition = ALL, more: SqlCondition = ALL, *, dense: bool = False
    ) -> SqlCondition:
        has_ids = dense or not self.place.has_delta  # the numbers of these folders are their ids in the segments
        names = _select_names("read_parquet(?)", where, join_conditions((more, chosen if has_ids else ALL)))
        folders = self._select_folders()
        counts = self._counts
        source = SqlCondition(
            "SELECT f.number AS folder, f.path, f.parent, n.name AS name, n.folded, n.is_dir, n.size, n.modified "
            f"FROM ({names.text}) AS n JOIN ({folders.text}) AS f ON f.id = n.folder WHERE {counts.text}",
            (self.name_files, *names.parameters, *folders.parameters, *counts.parameters),
        )
        if not self.place.has_delta or chosen == ALL:
            return source
        return SqlCondition(
            f"SELECT * FROM ({source.text}) WHERE {chosen.text}", (*source.parameters, *chosen.parameters)
        )

    def select_few(self, filters: Filters, limit: int) -> SqlCondition:
        """Return hits as in `Part`, without reading the other folders. The tables must not have changes."""
        names = _select_names("read_parquet(?)", filters.condition, ALL)
        folders, counts = self._select_folders(), self._counts
        rows = (
            f"SELECT CASE WHEN id IS NOT NULL AND {counts.text} THEN parent END AS parent, n.name AS name, n.folded, "
            f"n.is_dir, n.size, n.modified FROM ({names.text} LIMIT {limit}) AS n "
            f"LEFT JOIN ({folders.text}) AS f ON f.id = n.folder"
        )
        source = SqlCondition(rows, (*counts.parameters, self.name_files, *names.parameters, *folders.parameters))
        return self._rank(filters, source)

    def select_matches(self, filters: Filters, limit: int) -> SqlCondition:
        """Return at most `limit` names that match, in any folder: as hits, with the id of the folder for `parent`."""
        names, rank = _select_names("read_parquet(?)", filters.condition, ALL), filters.keywords.rank_expression
        columns = f"{self.number} AS place, folder, {_SHOWN}, {rank.text} AS rank"
        text = f"SELECT {columns} FROM ({names.text} LIMIT {limit})"
        return SqlCondition(text, (*rank.parameters, self.name_files, *names.parameters))

    def select_parents(self, matches: Sequence[tuple[int, int, str]]) -> SqlCondition:
        """Return `match` and `parent` for those of some names that are hits. A copied folder has several parents.

        `matches`: a number for each name, the id of its folder, and the name.
        """
        numbers, ids, names = map(list, zip(*matches, strict=True))
        folders, counts = self._select_folders(SqlCondition("id BETWEEN ? AND ?", (min(ids), max(ids)))), self._counts
        text = (
            "SELECT match, parent FROM (SELECT unnest(?::UINTEGER[]) AS match, unnest(?::UINTEGER[]) AS folder, "
            f"unnest(?::VARCHAR[]) AS name) AS n JOIN ({folders.text}) AS f ON f.id = n.folder WHERE {counts.text}"
        )
        return SqlCondition(text, (numbers, ids, names, *folders.parameters, *counts.parameters))

    def count(self, filters: Filters) -> SqlCondition:
        """Return the number of hits as in `Part`, without reading the folders if all of them count."""
        if self.place.has_delta or self.place.others or ROOT not in self.place.roots:
            return Part.count(self, filters)
        where = filters.condition
        text = f"SELECT count(*) AS hits FROM read_parquet(?) WHERE {where.text}"
        return SqlCondition(text, (self.name_files, *where.parameters))

    @property
    def name_files(self) -> list[str]:
        """Return the files with the names."""
        return [str(file) for file in self.segments.names]

    @property
    def _folder_files(self) -> list[str]:
        return [str(file) for file in self.segments.folders]

    @property
    def _counts(self) -> SqlCondition:
        """Return the condition that excludes the names of mounts of other storages, and hidden names."""
        names = ((encode_name(other.parent), encode_name(other.name)) for other in self.place.others)
        conditions = [SqlCondition("NOT (path = ? AND n.name = ?)", name) for name in names]
        if self.place.has_delta:
            hidden = "hidden_names AS h WHERE h.base = ? AND h.folder = f.path AND h.name = n.name"
            conditions.append(SqlCondition(f"NOT EXISTS (FROM {hidden})", (self.place.base,)))
        return join_conditions(conditions)

    def _select_folders(self, chosen: SqlCondition = ALL) -> SqlCondition:
        """Return `id`, `number`, `path`, `parent` of the folders at and below the root that satisfy `chosen`."""
        parent, inside = self._parent, join_conditions((*self._make_folder_conditions(), chosen))
        unhidden = find_unhidden(self.place.base) if self.place.has_delta else ALL
        where = join_conditions((inside, unhidden))
        stored = SqlCondition(
            f"SELECT id, id AS number, path, {parent.text} AS parent FROM read_parquet(?) AS folders "
            f"WHERE {where.text}",
            (*parent.parameters, self._folder_files, *where.parameters),
        )
        if not self.place.has_delta:
            return stored
        moved = SqlCondition(
            f"SELECT id, (? + number)::UINTEGER AS number, path, {parent.text} AS parent FROM folders "
            f"WHERE base = ? AND id IS NOT NULL AND {inside.text}",
            (self.place.stride, *parent.parameters, self.place.base, *inside.parameters),
        )
        return unite((stored, moved))

    def _make_folder_conditions(self) -> Iterator[SqlCondition]:
        """Yield the conditions for folders at and below the root that are not in another storage."""
        if ROOT not in self.place.roots:
            yield _make_below(self.place.roots)
        for other in self.place.others:
            below = _make_below((other,))
            yield SqlCondition(f"NOT {below.text}", below.parameters)

    @property
    def _parent(self) -> SqlCondition:
        """Return the tree path of the folder `path`."""
        if self.place.mount == "/":
            return SqlCondition("path")
        mount = encode_name(self.place.mount)
        return SqlCondition("CASE path WHEN '/' THEN ? ELSE ? || path END", (mount, mount))

    def make_ranges(self, table_count: int, size: int) -> Iterator[tuple[SqlCondition, bool]]:
        for first in range(0, self.place.stride, size):
            yield SqlCondition("folder BETWEEN ? AND ?", (first, min(first + size, self.place.stride) - 1)), True
        if self.place.has_delta:
            yield SqlCondition("folder >= ?", (self.place.stride,)), False


def _select_names(table: str, where: SqlCondition, more: SqlCondition) -> SqlCondition:
    """Return the names of a table that match and satisfy `more`, in any folder.

    The caller adds the parameter for the table.
    """
    columns = "folder, coalesce(name, folded) AS name, folded, is_dir, size, modified"
    text = f"SELECT {columns} FROM {table} WHERE {where.text}"
    if more == ALL:
        return SqlCondition(text, where.parameters)
    return SqlCondition(f"SELECT * FROM ({text}) WHERE {more.text}", (*where.parameters, *more.parameters))


def find_unhidden(base: int) -> SqlCondition:
    """Return the condition under which rows of the segments for `folders` are valid."""
    return SqlCondition(_UNHIDDEN, (base, base))


def _make_below(paths: Sequence[TreePath]) -> SqlCondition:
    """Return the condition for folders at or below one of the paths."""
    texts = [encode_name(path) for path in paths]
    condition = " OR ".join(["path = ? OR starts_with(path, ?)"] * len(texts))
    return SqlCondition(f"({condition})", tuple(value for text in texts for value in (text, f"{text}/")))
