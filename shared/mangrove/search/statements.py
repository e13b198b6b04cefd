"""The texts of one search's statements. What a caller sent, and every path, is a parameter of theirs.

A hit in a statement: `place` (its number), `parent` (the tree path of its folder), `name`, `folded`, `is_dir`, `size`,
`modified`, `rank`. Names and paths in it are as `search.names` stores them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.search.hits import Doubts
from mangrove.search.names import MARK, encode_name
from mangrove.search.segments import Segments
from mangrove.search.words import Condition, Keywords, join_conditions

HIT = "place, parent, name, folded, is_dir, size, modified, rank"
ORDER = "rank, folded, parent, name"
ALL = Condition("TRUE")
_SHOWN = "name, folded, is_dir, size, modified"
_TESTED = "name, is_dir, size, modified"

_ASKS_TABLES = re.compile(r"\\[pP]|\(\?[a-zA-Z]*i")

_UNMASKED = """NOT EXISTS (FROM masked WHERE masked.storage = {0} AND masked.path = folders.path)
AND NOT EXISTS (FROM masked WHERE masked.storage = {0} AND masked.deep
AND folders.path >= rtrim(masked.path, '/') || '/' AND folders.path < rtrim(masked.path, '/') || '0')"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to search: at and below `root` in a storage; the tree path of its folder `p` is `mount / p`.

    `segments`: None while there is no index: only what was read again counts. `others`: the paths inside the storage at
    which other storages are mounted: neither what the index says of such a name nor of what is below it counts.
    """

    storage_id: int
    segments: Segments | None
    mount: TreePath
    root: TreePath
    others: tuple[TreePath, ...] = ()


@dataclass(frozen=True, slots=True)
class Filters:
    """What is looked for. `scope`: 0 all, 1 folders, else files. `extensions`: of `words.parse_extensions`.

    Extensions and sizes (bytes) are those of files: no folder passes them, nor a file of unknown size. `since` and
    `until`, both included: seconds since the epoch; what has no known time passes neither.
    """

    keywords: Keywords
    scope: int = 0
    extensions: tuple[str, ...] = ()
    min_size: int | None = None
    max_size: int | None = None
    since: float | None = None
    until: float | None = None

    @property
    def condition(self) -> Condition:
        """All of it, of the columns of the index."""
        return join_conditions((*self._make_parts(), self.keywords.condition))

    def _make_parts(self) -> Iterator[Condition]:
        if self.scope:
            yield Condition("is_dir" if self.scope == 1 else "NOT is_dir")
        elif self.extensions or self.min_size is not None or self.max_size is not None:
            yield Condition("NOT is_dir")
        if self.min_size is not None:
            yield Condition("size >= ?", (self.min_size,))
        if self.max_size is not None:
            yield Condition("size <= ?", (self.max_size,))
        if self.since is not None or self.until is not None:
            yield Condition("modified <> 0")
        if self.since is not None:
            yield Condition("modified >= ?", (self.since,))
        if self.until is not None:
            yield Condition("modified <= ?", (self.until,))
        if self.extensions:
            text = " OR ".join("ends_with(folded, ?)" for _ in self.extensions)
            yield Condition(f"({text})", tuple(f".{one}" for one in self.extensions))


@dataclass(slots=True)
class Unseen:
    """What the caller may not see of a place."""

    folders: bytearray = field(default_factory=bytearray)  # a bit for each folder's id, the highest of a byte first
    rows: list[tuple[int, str]] = field(default_factory=list)  # folder ids and names
    fresh_folders: list[str] = field(default_factory=list)  # tree paths
    fresh_rows: list[tuple[str, str]] = field(default_factory=list)  # tree paths and names

    def hide_folder(self, id: int) -> None:
        """Hide the folder with that id."""
        missing = (id >> 3) + 1 - len(self.folders)
        if missing > 0:
            self.folders.extend(bytes(missing))
        self.folders[id >> 3] |= 128 >> (id & 7)

    @property
    def condition(self) -> Condition:
        """What is left, of the rows of the index."""
        return join_conditions(self._make_parts())

    def _make_parts(self) -> Iterator[Condition]:
        if self.folders:
            seen = "CASE WHEN folder < ? THEN get_bit(?::BLOB::BIT, folder::INTEGER) = 0 ELSE TRUE END"
            yield Condition(seen, (len(self.folders) * 8, bytes(self.folders)))
        if self.rows:
            yield _leave_out("folder", "UINTEGER", self.rows)

    @property
    def fresh_condition(self) -> Condition:
        """What is left, of the rows that were read again."""
        return join_conditions(self._make_fresh_parts())

    def _make_fresh_parts(self) -> Iterator[Condition]:
        if self.fresh_folders:
            yield Condition("parent NOT IN (SELECT unnest(?::VARCHAR[]))", (self.fresh_folders,))
        if self.fresh_rows:
            yield _leave_out("parent", "VARCHAR", self.fresh_rows)


def _leave_out(column: str, kind: str, rows: Sequence[tuple[int | str, str]]) -> Condition:
    unseen = f"SELECT unnest(?::{kind}[]), unnest(?::VARCHAR[])"
    return Condition(f"({column}, name) NOT IN ({unseen})", ([row[0] for row in rows], [row[1] for row in rows]))


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` parts of about the same size into which hits are divided."""

    number: int
    count: int

    @property
    def condition(self) -> Condition:
        """What is in it."""
        return ALL if self.count == 1 else Condition("hash(folded) % ? = ?", (self.count, self.number))


def find_doubtful(doubts: Doubts) -> Condition:
    """The hits among which all are that the doubts are about.

    RE2 is RE2, but its tables of scripts and of what is a letter's other case grow from one version to the next: where
    a pattern asks them, every name counts that is not ASCII, and so does a name that is stored otherwise.
    """
    parts = [Condition("regexp_matches(name, ?)", (pattern,)) for pattern in doubts.patterns]
    parts.append(Condition("contains(name, ?)", (MARK,)))
    if any(_ASKS_TABLES.search(pattern) for pattern in doubts.patterns):
        parts.append(Condition("strlen(name) <> length(name)"))
    if doubts.folders:
        parts.append(Condition("is_dir"))
    return Condition(
        f"({' OR '.join(part.text for part in parts)})", tuple(value for part in parts for value in part.parameters)
    )


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one place. `is_fresh`, `is_masked`: whether folders of it were read again, and so do not count."""

    number: int
    place: Place
    is_fresh: bool
    is_masked: bool

    @property
    def row_count(self) -> int:
        """How many rows the index has."""
        return 0 if self.place.segments is None else self.place.segments.manifest.count

    def select_hits(self, filters: Filters, unseen: Unseen) -> Condition:
        """The hits of the index."""
        hits = f"{self.number} AS place, parent, {_SHOWN}"
        return _select(hits, filters, self._join(filters, unseen.condition))

    def select_fresh(self, filters: Filters, unseen: Unseen) -> Condition:
        """The hits among what was read again."""
        hits = f"{self.number} AS place, parent, {_SHOWN}"
        return _select(hits, filters, self._find_fresh(filters, unseen.fresh_condition))

    def select_few(self, filters: Filters, limit: int) -> Condition:
        """No more than `limit` hits of the index, `parent` NULL where the folder does not count: found without a look
        at the other folders."""
        names, folders = self._select_names(filters), self._select_folders(ALL)
        counts = join_conditions((self._unhidden, self._unmasked))
        return _select(
            f"{self.number} AS place, CASE WHEN {counts.text} THEN parent END AS parent, {_SHOWN}",
            filters,
            Condition(
                f"({names.text} LIMIT {limit}) LEFT JOIN ({folders.text}) AS folders ON id = folder",
                (*names.parameters, *folders.parameters),
            ),
            counts.parameters,
        )

    def count_by_folder(self, filters: Filters, ids: range, doubtful: Condition) -> Condition:
        """`place`, `folder`, `parent`, the number of hits and that of doubtful ones in each folder with one of these
        ids."""
        source = self._join(filters, Condition("folder BETWEEN ? AND ?", (ids.start, ids.stop - 1)))
        counts = f"any_value(parent), count(*), count(*) FILTER (WHERE {doubtful.text})"
        text = f"SELECT {self.number}, folder, {counts} FROM {source.text} GROUP BY folder"
        return Condition(text, (*doubtful.parameters, *source.parameters))

    def count_by_fresh_folder(self, filters: Filters, doubtful: Condition) -> Condition:
        """The same of the folders that were read again; `folder` is NULL."""
        source = self._find_fresh(filters, ALL)
        counts = f"count(*), count(*) FILTER (WHERE {doubtful.text})"
        text = f"SELECT {self.number}, NULL, parent, {counts} FROM {source.text} GROUP BY parent"
        return Condition(text, (*doubtful.parameters, *source.parameters))

    def select_in_folders(self, filters: Filters, ids: Sequence[int], wanted: Condition) -> Condition:
        """Of the folders with these ids, which count: `folder`, `name`, `is_dir`, `size`, `modified` of those hits
        that are `wanted`."""
        chosen = Condition(
            "folder BETWEEN ? AND ? AND folder IN (SELECT unnest(?::UINTEGER[]))", (min(ids), max(ids), list(ids))
        )
        more = join_conditions((chosen, wanted))
        names = self._select_names(filters, more)
        source = self._join(filters, more) if self.place.others else Condition(f"({names.text})", names.parameters)
        return Condition(f"SELECT folder, {_TESTED} FROM {source.text}", source.parameters)

    def select_in_fresh_folders(self, filters: Filters, parents: Sequence[str], wanted: Condition) -> Condition:
        """The same of folders that were read again, with these tree paths, which stand for `folder`."""
        chosen = Condition("parent IN (SELECT unnest(?::VARCHAR[]))", (list(parents),))
        source = self._find_fresh(filters, join_conditions((chosen, wanted)))
        return Condition(f"SELECT parent, {_TESTED} FROM {source.text}", source.parameters)

    def _join(self, filters: Filters, more: Condition) -> Condition:
        """Where the matching rows of the index come from that pass `more`."""
        names, folders, others = self._select_names(filters, more), self._select_folders(self._unmasked), self._unhidden
        return Condition(
            f"({names.text}) JOIN ({folders.text}) ON id = folder WHERE {others.text}",
            (*names.parameters, *folders.parameters, *others.parameters),
        )

    def _find_fresh(self, filters: Filters, more: Condition) -> Condition:
        """The same of what was read again."""
        parent, where = self._parent, join_conditions((*self._make_folder_conditions(), filters.condition))
        others = self._unhidden
        rows = (
            f"SELECT path, {parent.text} AS parent, coalesce(name, folded) AS name, folded, is_dir, size, modified "
            f"FROM fresh_names WHERE storage = {self.place.storage_id} AND {where.text}"
        )
        return Condition(
            f"({rows}) WHERE {others.text} AND {more.text}",
            (*parent.parameters, *where.parameters, *others.parameters, *more.parameters),
        )

    def _select_names(self, filters: Filters, more: Condition = ALL) -> Condition:
        """The rows of the index that match and pass `more`, whatever folder they are in."""
        assert self.place.segments is not None
        where = filters.condition
        files = [str(file) for file in self.place.segments.names]
        text = (
            "SELECT folder, coalesce(name, folded) AS name, folded, is_dir, size, modified "
            f"FROM read_parquet(?) WHERE {where.text}"
        )
        if more == ALL:
            return Condition(text, (files, *where.parameters))
        return Condition(f"SELECT * FROM ({text}) WHERE {more.text}", (files, *where.parameters, *more.parameters))

    def _select_folders(self, more: Condition) -> Condition:
        """`id`, `path`, `parent` of the folders at and below the root that pass `more`."""
        assert self.place.segments is not None
        parent = self._parent
        where = join_conditions((*self._make_folder_conditions(), more))
        files = [str(file) for file in self.place.segments.folders]
        return Condition(
            f"SELECT id, path, {parent.text} AS parent FROM read_parquet(?) AS folders WHERE {where.text}",
            (*parent.parameters, files, *where.parameters),
        )

    def _make_folder_conditions(self) -> Iterator[Condition]:
        """At and below the root, and in no other storage."""
        if self.place.root != "/":
            yield _make_below(self.place.root)
        for other in self.place.others:
            below = _make_below(other)
            yield Condition(f"NOT {below.text}", below.parameters)

    @property
    def _unmasked(self) -> Condition:
        """What the index says of `folders` counts."""
        return Condition(_UNMASKED.format(self.place.storage_id)) if self.is_masked else ALL

    @property
    def _parent(self) -> Condition:
        """The tree path of the folder `path`."""
        if self.place.mount == "/":
            return Condition("path")
        mount = encode_name(self.place.mount)
        return Condition("CASE path WHEN '/' THEN ? ELSE ? || path END", (mount, mount))

    @property
    def _unhidden(self) -> Condition:
        """Not the name of a place where another storage is mounted."""
        names = ((encode_name(other.parent), encode_name(other.name)) for other in self.place.others)
        return join_conditions(Condition("NOT (path = ? AND name = ?)", one) for one in names)


def _select(hits: str, filters: Filters, source: Condition, parameters: tuple[Any, ...] = ()) -> Condition:
    """Hits of a source; `parameters`: those of `hits`."""
    rank = filters.keywords.rank_expression
    text = f"SELECT {hits}, {rank.text} AS rank FROM {source.text}"
    return Condition(text, (*parameters, *rank.parameters, *source.parameters))


def _make_below(path: TreePath) -> Condition:
    text = encode_name(path)
    return Condition("(path = ? OR starts_with(path, ?))", (text, f"{text}/"))


def unite(parts: Iterable[Condition]) -> Condition:
    """The rows of all these statements, of which there is one at least."""
    found = tuple(parts)
    text = " UNION ALL ".join(f"({part.text})" for part in found)
    return Condition(text, tuple(value for part in found for value in part.parameters))
