"""One search as statements: matches by folder, then the page.

Few hits are fetched, tested, sorted and cut here. For many hits, their folders are tested, several at a time, and the
invisible ones go into the statement of the page as bits by folder number.

The order is the same in both cases: the rank of the name (`words`), the folded name, the path of its folder, the name.
Text is compared by code points.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from mangrove.core.chunked import chunked
from mangrove.core.paths import TreePath
from mangrove.core.problems import SearchTooSlow
from mangrove.search.few import fetch_few
from mangrove.search.hidden_rows import HiddenRows, find_hidable
from mangrove.search.hits import EVERYTHING as EVERYTHING
from mangrove.search.hits import NOTHING as NOTHING
from mangrove.search.hits import HidableRows
from mangrove.search.hits import Hit as Hit
from mangrove.search.hits import Visibility as Visibility
from mangrove.search.hits import VisibilityEvaluator as VisibilityEvaluator
from mangrove.search.index import search_index
from mangrove.search.names import decode_name
from mangrove.search.statements import ORDER, HitShare, Part, SegmentsPart, TablesPart
from mangrove.search.statements import Filters as Filters
from mangrove.search.statements import SearchSource as SearchSource
from mangrove.search.words import ALL, SqlCondition, join_conditions, unite

MAX_HITS_FETCHED = 2000  # read together, before their number is known
FOLDERS_PER_COUNT = 25_000  # counted together: rows are made into objects while nothing else runs
HITS_PER_TEST = 20_000  # tested together, one by one
MAX_PATTERNS = 64  # fetched from the database
MAX_HIDDEN_NAMES = 100_000  # hits in folders that the caller may see in part: about 20 MB
SEGMENTS_PER_STATEMENT = 8  # each takes memory of its own
MAX_OFFSET = 20_000  # the last hit that can be requested if there are more segments
MAX_HITS_KEPT = 100_000  # in memory, to count and to sort them in one statement: 17 MB. More are read twice


class _Row(NamedTuple):
    """A hit in the result of a statement."""

    part: int
    parent: str
    name: str
    folded: str
    is_dir: bool
    size: int | None
    modified: float
    rank: int

    @property
    def key(self) -> tuple[int, str, str, str]:
        """The key for sorting."""
        return self.rank, self.folded, self.parent, self.name

    @property
    def hit(self) -> Hit:
        return Hit(_decode_path(self.parent), decode_name(self.name), self.is_dir, self.size, self.modified)


class _Group(NamedTuple):
    """The hits in one folder, and the number of those that have to be tested."""

    part: int
    folder: int
    parent: str
    hits: int
    hidable: int


class _Test(NamedTuple):
    """A folder of which the caller may see a part."""

    group: _Group
    parent: TreePath
    passes: Callable[[Hit], bool]


def _decode_path(stored: str) -> TreePath:
    """Return a path of the index. It was a TreePath when it was stored and is not checked again."""
    return str.__new__(TreePath, decode_name(stored))


async def run(
    places: Sequence[SearchSource],
    filters: Filters,
    evaluator: VisibilityEvaluator,
    start: int,
    count: int,
    *,
    seconds: float = 2.0,
) -> tuple[list[Hit], int]:
    """Return at most `count` hits from `start` (from 0) on, and the total.

    Raise DamagedSegment, or SearchTooSlow after `seconds`.
    """
    search = _Search(places, filters, time.monotonic() + seconds)
    await search.leave_out_segments()
    few = await search.fetch_few()
    if few is not None:
        rows = few if not evaluator.is_needed else await _select_visible(few, evaluator, search)
        rows.sort(key=lambda row: row.key)
        return [row.hit for row in rows[start : start + count]], len(rows)
    if not evaluator.is_needed:
        return await search.fetch_counted_page(start, count)
    visibility = _Visibility(search, evaluator)
    await visibility.run()
    page = await search.fetch_page(visibility.hidden, start, count)
    # the tree may have changed since its folders were tested
    page = await _select_visible(page, evaluator, search)
    return [row.hit for row in page], visibility.total


class _Search:
    """The statements of one search, which end together at `end` (of `time.monotonic`)."""

    def __init__(self, places: Sequence[SearchSource], filters: Filters, end: float) -> None:
        self._database = search_index().database
        self.filters = filters
        self._end = end
        self._hidable = ALL
        tables = [place for place in places if place.segments is None or place.has_delta]
        stored = [place for place in places if place.segments is not None and place.segments.manifest.count]
        self.parts: list[Part] = [TablesPart(0, tables)]
        self.parts += [SegmentsPart(number, place) for number, place in enumerate(stored, 1)]
        self._matching = frozenset(range(0 if tables else 1, len(self.parts)))  # numbers of parts that may have hits

    def check_time(self) -> float:
        """Return the remaining seconds. Raise SearchTooSlow."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise SearchTooSlow
        return left

    async def run(self, statement: SqlCondition) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return await self._database.run(statement.text, statement.parameters, seconds=self.check_time())

    async def leave_out_segments(self) -> None:
        """Leave out segments without a match if there are many. One read of all costs less than a join for each."""
        files = {part.number: part.name_files for part in self.parts if isinstance(part, SegmentsPart)}
        if len(files) <= SEGMENTS_PER_STATEMENT:
            return
        where = self.filters.condition
        text = f"SELECT DISTINCT filename FROM read_parquet(?, filename = true) WHERE {where.text}"
        rows = await self.run(SqlCondition(text, ([*chain.from_iterable(files.values())], *where.parameters)))
        matching = {file for (file,) in rows}
        numbers = (number for number, own in files.items() if not matching.isdisjoint(own))
        self._matching &= {0, *numbers}

    @property
    def _batches(self) -> list[list[Part]]:
        """Return the parts that may have hits, in groups that one statement reads."""
        parts = [part for part in self.parts if part.number in self._matching]
        size = SEGMENTS_PER_STATEMENT + 1
        return [parts[start : start + size] for start in range(0, len(parts), size)]

    async def fetch_few(self) -> list[_Row] | None:
        """Return all hits, unordered; None if there are many."""
        rows: list[_Row] = []
        for batch in self._batches:
            hits = await fetch_few(self.run, batch, self.filters, MAX_HITS_FETCHED + 1)
            rows += [_Row(*hit) for hit in hits or ()]
            if hits is None or len(rows) > MAX_HITS_FETCHED:
                return None
        return rows

    def _select_hits(
        self, batch: Sequence[Part], hidden: Mapping[int, HiddenRows], bound: SqlCondition = ALL
    ) -> SqlCondition:
        return unite(part.select_hits(self.filters, hidden.get(part.number), bound) for part in batch)

    async def fetch_page(
        self, hidden: Mapping[int, HiddenRows], start: int, count: int, bound: SqlCondition = ALL
    ) -> list[_Row]:
        """Return the page without the hidden rows of each part, by its number.

        `bound`: a condition on names that all hits up to the end of the page satisfy.
        """
        batches = self._batches
        if len(batches) == 1:
            return await self._fetch_page(batches[0], hidden, start, count, bound)
        if start + count > MAX_OFFSET:
            raise SearchTooSlow
        rows: list[_Row] = []
        for batch in batches:
            rows = _sort([*rows, *await self._fetch_page(batch, hidden, 0, start + count, bound)])[: start + count]
        return rows[start:]

    async def _fetch_page(
        self, batch: Sequence[Part], hidden: Mapping[int, HiddenRows], start: int, count: int, bound: SqlCondition
    ) -> list[_Row]:
        hits = self._select_hits(batch, hidden, bound)
        page = f"SELECT * FROM ({hits.text}) ORDER BY {ORDER} LIMIT ? OFFSET ?"
        return _sort(_Row(*row) for row in await self.run(SqlCondition(page, (*hits.parameters, count, start))))

    async def fetch_counted_page(self, start: int, count: int) -> tuple[list[Hit], int]:
        """Return the page and the total, in one statement if that keeps no more than MAX_HITS_KEPT hits in memory."""
        batches, end, total = self._batches, start + count, 0
        if len(batches) > 1 and end > MAX_OFFSET:
            raise SearchTooSlow
        first = start if len(batches) == 1 else 0
        rows: list[_Row] = []
        for batch in batches:
            page, hits = await self._fetch_counted_page(batch, first, end - first)
            if hits > MAX_HITS_KEPT:
                return await self._fetch_bounded_page(start, count, page[end - first - 1 :])
            rows, total = _sort([*rows, *page])[: end - first], total + hits
        return [row.hit for row in rows[start - first :]], total

    async def _fetch_counted_page(self, batch: Sequence[Part], start: int, count: int) -> tuple[list[_Row], int]:
        """Return the page and the total.

        Above MAX_HITS_KEPT hits, the page is one of some of the hits, and the total is any larger number.
        """
        hits = self._select_hits(batch, {})
        rows = await self.run(
            SqlCondition(
                f"WITH hits AS MATERIALIZED (SELECT * FROM ({hits.text}) LIMIT {MAX_HITS_KEPT + 1}), "
                "counted AS MATERIALIZED (SELECT count(*) AS total FROM hits), "
                f"page AS (FROM hits ORDER BY {ORDER} LIMIT ? OFFSET ?) "
                "SELECT page.*, total FROM counted LEFT JOIN page ON TRUE",
                (*hits.parameters, count, start),
            )
        )
        return _sort(_Row(*row[:-1]) for row in rows if row[0] is not None), rows[0][-1]

    async def _fetch_bounded_page(self, start: int, count: int, last: Sequence[_Row]) -> tuple[list[Hit], int]:
        """Return the page and the total.

        `last`: if known, a hit that is not before the end of the page. Only the hits up to its name are sorted.
        """
        total = sum([await self._count(batch) for batch in self._batches])
        rows: list[_Row] = []
        for row in last:
            rows = await self.fetch_page({}, start, count, self.filters.keywords.make_bound(row.rank, row.folded))
        if len(rows) < min(count, total - start):  # no hit is known, or the tables have changed since it was read
            rows = await self.fetch_page({}, start, count)
        return [row.hit for row in rows], total

    async def _count(self, batch: Sequence[Part]) -> int:
        """Return the number of hits."""
        counts = unite(part.count(self.filters) for part in batch)
        [(total,)] = await self.run(SqlCondition(f"SELECT sum(hits) FROM ({counts.text})", counts.parameters))
        return int(total)

    async def find_hidable(self, rows: HidableRows | None) -> None:
        """Restrict the tests to hits that rules may hide, if the database can select them."""
        if rows is not None and len(rows.patterns) <= MAX_PATTERNS:
            hidable = find_hidable(rows)
            statement = f"SELECT {hidable.text} FROM (SELECT 'x' AS name, FALSE AS is_dir)"
            if await self._database.accepts(statement, hidable.parameters, seconds=self.check_time()):
                self._hidable = hidable

    async def count_by_folder(self) -> AsyncIterator[list[tuple[Any, ...]]]:
        """Yield the number of hits in each folder, some folders at a time: fields of _Group, in file order."""
        [(folders,)] = await self.run(SqlCondition("SELECT count(*) FROM folders"))
        for part in chain.from_iterable(self._batches):
            for chosen in part.make_ranges(folders, FOLDERS_PER_COUNT):
                groups = part.count_by_folder(self.filters, chosen, self._hidable)
                yield await self.run(SqlCondition(f"SELECT * FROM ({groups.text}) ORDER BY 2", groups.parameters))

    async def fetch_tested(self, tests: Sequence[_Test], share: HitShare) -> list[tuple[Any, ...]]:
        """Return the hits to test in folders of one part, each with the number of its folder."""
        part, numbers = self.parts[tests[0].group.part], [test.group.folder for test in tests]
        more = join_conditions((share.condition, self._hidable))
        return await self.run(part.select_in_folders(self.filters, numbers, more))


def _sort(rows: Iterable[_Row]) -> list[_Row]:
    return sorted(rows, key=lambda row: row.key)


@chunked
def _select_visible(
    rows: Sequence[_Row], evaluator: VisibilityEvaluator, search: _Search
) -> Generator[None, None, list[_Row]]:
    """Return the rows that the caller may see."""
    visibilities: dict[str, Visibility] = {}
    visible = []
    for row in rows:
        if row.parent not in visibilities:
            visibilities[row.parent] = evaluator.evaluate(_decode_path(row.parent))
        visibility = visibilities[row.parent]
        if visibility is EVERYTHING or (callable(visibility) and visibility(row.hit)):
            visible.append(row)
        search.check_time()
        yield
    return visible


class _Visibility:
    """The hits that a caller may see: their number, and the hidden rows of each part by its number."""

    def __init__(self, search: _Search, evaluator: VisibilityEvaluator) -> None:
        self._search = search
        self._evaluator = evaluator
        self._name_count = 0
        self.total = 0
        self.hidden: defaultdict[int, HiddenRows] = defaultdict(HiddenRows)
        for part in search.parts:
            self.hidden[part.number] = HiddenRows(part.limit)

    async def run(self) -> None:
        """Test all folders with hits."""
        await self._search.find_hidable(self._evaluator.hidable)
        async for groups in self._search.count_by_folder():
            tests = await self._test_folders(groups)
            for batch in _make_batches(tests):
                await self._test(batch)

    @chunked
    def _test_folders(self, groups: Sequence[tuple[Any, ...]]) -> Generator[None, None, list[_Test]]:
        """Return the folders in which each hit has to be tested."""
        tests = []
        for group in (_Group(*fields) for fields in groups):
            parent = _decode_path(group.parent)
            visibility = self._evaluator.evaluate(parent)
            if visibility is EVERYTHING:
                self.total += group.hits
            elif visibility is NOTHING:
                self.hidden[group.part].hide_folder(group.folder)
            else:
                self.total += group.hits
                if group.hidable:
                    tests.append(_Test(group, parent, visibility))
            self._search.check_time()
            yield
        return tests

    async def _test(self, batch: Sequence[_Test]) -> None:
        shares = sum(test.group.hidable for test in batch) // HITS_PER_TEST + 1
        for number in range(shares):
            rows = await self._search.fetch_tested(batch, HitShare(number, shares))
            for group, names in await self._find_hidden(batch, rows):
                self._hide_rows(group, names)

    @chunked
    def _find_hidden(
        self, batch: Sequence[_Test], rows: Sequence[tuple[Any, ...]]
    ) -> Generator[None, None, list[tuple[_Group, list[str]]]]:
        """Return the names that fail the test, by their folders."""
        tests = {test.group.folder: test for test in batch}
        hidden: defaultdict[int, list[str]] = defaultdict(list)
        for folder, name, *rest in rows:
            if not tests[folder].passes(Hit(tests[folder].parent, decode_name(name), *rest)):
                hidden[folder].append(name)
            self._search.check_time()
            yield
        return [(tests[folder].group, names) for folder, names in hidden.items()]

    def _hide_rows(self, group: _Group, names: Sequence[str]) -> None:
        self.total -= len(names)
        if len(names) == group.hits:
            self.hidden[group.part].hide_folder(group.folder)
            return
        self._name_count += len(names)
        if self._name_count > MAX_HIDDEN_NAMES:
            raise SearchTooSlow
        self.hidden[group.part].rows += [(group.folder, name) for name in names]


def _make_batches(tests: Sequence[_Test]) -> Iterator[list[_Test]]:
    """Yield the folders of one part with HITS_PER_TEST hits to test together, or one folder with more."""
    batch: list[_Test] = []
    count = 0
    for test in tests:
        if batch and count + test.group.hidable > HITS_PER_TEST:
            yield batch
            batch, count = [], 0
        batch.append(test)
        count += test.group.hidable
    if batch:
        yield batch
