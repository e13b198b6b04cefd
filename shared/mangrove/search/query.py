"""One search as statements: matches by folder, then the page.

Few hits are fetched, judged, sorted and cut here. Of many, the folders that they are in are judged, some at a time, and
what the caller may not see goes into the statement of the page as bits by folder id. The order is one: how well the
name fits (`words`), the folded name, the path of its folder, the name; text goes by its code points.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import SearchTooSlow
from mangrove.core.slices import run_in_slices
from mangrove.search.database import Database
from mangrove.search.hits import EVERYTHING as EVERYTHING
from mangrove.search.hits import NOTHING as NOTHING
from mangrove.search.hits import Doubts
from mangrove.search.hits import Hit as Hit
from mangrove.search.hits import Judge as Judge
from mangrove.search.hits import Verdict as Verdict
from mangrove.search.names import decode_name
from mangrove.search.statements import ALL, ORDER, Part, Share, Unseen, find_doubtful, unite
from mangrove.search.statements import Filters as Filters
from mangrove.search.statements import Place as Place
from mangrove.search.words import Condition, join_conditions

FEW = 2000  # hits that are fetched at once
FOLDERS = 25_000  # whose hits are counted at once: rows are made into objects while nothing else runs
TESTED = 20_000  # hits that are tested one by one at once
MOST_PATTERNS = 64  # that the database is asked for
MOST_UNSEEN = 100_000  # hits in folders that the caller may see in part: about 20 MB
PLACES = 8  # that one statement reads: each takes memory of its own
DEEPEST = 20_000  # the last hit that can be asked for when there are more places
MOST_KEPT = 300_000  # hits that are kept in memory, to count and to sort them in one go: about 50 MB


class _Row(NamedTuple):
    """A hit as the statements answer it."""

    place: int
    parent: str
    name: str
    folded: str
    is_dir: bool
    size: int | None
    modified: float
    rank: int

    @property
    def key(self) -> tuple[int, str, str, str]:
        """The order."""
        return self.rank, self.folded, self.parent, self.name

    @property
    def hit(self) -> Hit:
        return Hit(_decode_path(self.parent), decode_name(self.name), self.is_dir, self.size, self.modified)


class _Group(NamedTuple):
    """The hits in one folder, and the doubtful ones among them; `id`: None where it was read again."""

    place: int
    id: int | None
    parent: str
    hits: int
    doubtful: int

    @property
    def key(self) -> int | str:
        """What tells it from the others of its place that were read again, or were not."""
        return self.parent if self.id is None else self.id


class _Test(NamedTuple):
    """A folder of which the caller may see a part."""

    group: _Group
    parent: TreePath
    passes: Callable[[Hit], bool]


def _decode_path(stored: str) -> TreePath:
    """A path of the index, which was a TreePath when it was stored and need not be checked again."""
    return str.__new__(TreePath, decode_name(stored))


async def run(
    places: Sequence[Place], filters: Filters, judge: Judge, start: int, count: int, *, seconds: float = 2.0
) -> tuple[list[Hit], int]:
    """The hits from `start` (0 is the first) on, no more than `count`, and how many there are in all.

    SearchTooSlow when it is not done within `seconds`; DamagedSegment.
    """
    search = _Search(filters, time.monotonic() + seconds)
    await search.find_parts(places)
    few = await search.fetch_few()
    if few is not None:
        rows = few if not judge.is_needed else await run_in_slices(_select_seen(few, judge, search))
        rows.sort(key=lambda row: row.key)
        return [row.hit for row in rows[start : start + count]], len(rows)
    if judge.is_needed:
        judged = _Judged(search, judge)
        await judged.run()
        return await search.fetch_page(judged.unseen, start, count), judged.total
    return await search.fetch_counted_page(start, count)


class _Search:
    """The statements of one search, which end together at `end` (of `time.monotonic`)."""

    def __init__(self, filters: Filters, end: float) -> None:
        self._database = runtime.get(Database)
        self.filters = filters
        self._end = end
        self._doubtful = ALL
        self.parts: list[Part] = []

    def check_time(self) -> float:
        """The seconds that are left; SearchTooSlow."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise SearchTooSlow
        return left

    async def run(self, statement: Condition) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return await self._database.run(statement.text, statement.parameters, seconds=self.check_time())

    async def find_parts(self, places: Sequence[Place]) -> None:
        """What there is of the places, and what was read again since; of many places only what may match."""
        laid = "SELECT DISTINCT storage, TRUE FROM masked UNION ALL SELECT DISTINCT storage, FALSE FROM fresh_names"
        found = set(await self.run(Condition(laid)))
        self.parts = [
            Part(number, place, (place.storage_id, False) in found, (place.storage_id, True) in found)
            for number, place in enumerate(places)
        ]
        if len(self._batches) > 1:
            await self._leave_out_indexes()

    async def _leave_out_indexes(self) -> None:
        """Let the indexes be in which nothing matches: one look at all of them costs less than a join for each."""
        segments = {part.number: part.place.segments for part in self.parts if part.row_count}
        files = {number: [str(file) for file in found.names] for number, found in segments.items() if found}
        where = self.filters.condition
        text = f"SELECT DISTINCT filename FROM read_parquet(?, filename = true) WHERE {where.text}"
        rows = await self.run(Condition(text, ([*chain.from_iterable(files.values())], *where.parameters)))
        matching = {file for (file,) in rows}
        self.parts = [
            replace(part, place=replace(part.place, segments=None))
            if matching.isdisjoint(files.get(part.number, ()))
            else part
            for part in self.parts
        ]

    @property
    def _batches(self) -> list[list[Part]]:
        """The places that have anything, as many at once as a statement reads."""
        parts = [part for part in self.parts if part.row_count or part.is_fresh]
        return [parts[start : start + PLACES] for start in range(0, len(parts), PLACES)]

    async def fetch_few(self) -> list[_Row] | None:
        """All hits, in no order; None when there are many."""
        rows: list[tuple[Any, ...]] = []
        for batch in self._batches:
            found = [part.select_few(self.filters, FEW + 1) for part in batch if part.row_count]
            found += [part.select_fresh(self.filters, Unseen()) for part in batch if part.is_fresh]
            hits = unite(found)
            rows += await self.run(Condition(f"SELECT * FROM ({hits.text}) LIMIT {FEW + 1}", hits.parameters))
            if len(rows) > FEW:
                return None
        return [_Row(*row) for row in rows if row[1] is not None]

    def _select_hits(self, batch: Sequence[Part], unseen: Mapping[int, Unseen]) -> Condition:
        found = [(part, unseen.get(part.number) or Unseen()) for part in batch]
        hits = [part.select_hits(self.filters, one) for part, one in found if part.row_count]
        return unite(hits + [part.select_fresh(self.filters, one) for part, one in found if part.is_fresh])

    async def fetch_page(self, unseen: Mapping[int, Unseen], start: int, count: int) -> list[Hit]:
        """The page, without what is unseen of the places by their number."""
        batches = self._batches
        if len(batches) == 1:
            return [row.hit for row in await self._fetch_page(batches[0], unseen, start, count)]
        if start + count > DEEPEST:
            raise SearchTooSlow
        rows: list[_Row] = []
        for batch in batches:
            rows = _sort([*rows, *await self._fetch_page(batch, unseen, 0, start + count)])[: start + count]
        return [row.hit for row in rows[start:]]

    async def _fetch_page(
        self, batch: Sequence[Part], unseen: Mapping[int, Unseen], start: int, count: int
    ) -> list[_Row]:
        hits = self._select_hits(batch, unseen)
        page = f"SELECT * FROM ({hits.text}) ORDER BY {ORDER} LIMIT ? OFFSET ?"
        return _sort(_Row(*row) for row in await self.run(Condition(page, (*hits.parameters, count, start))))

    async def fetch_counted_page(self, start: int, count: int) -> tuple[list[Hit], int]:
        """The page and the total, in one go if no more than MOST_KEPT hits have to be kept in memory for that."""
        batches, end, total = self._batches, start + count, 0
        if len(batches) > 1 and end > DEEPEST:
            raise SearchTooSlow
        first = start if len(batches) == 1 else 0
        rows: list[_Row] = []
        for batch in batches:
            page, found = await self._fetch_counted_page(batch, first, end - first)
            if found > MOST_KEPT:
                return await self.fetch_page({}, start, count), sum([await self._count(batch) for batch in batches])
            rows, total = _sort([*rows, *page])[: end - first], total + found
        return [row.hit for row in rows[start - first :]], total

    async def _fetch_counted_page(self, batch: Sequence[Part], start: int, count: int) -> tuple[list[_Row], int]:
        """Of more than MOST_KEPT hits there is no page, and the total is some number above."""
        hits = self._select_hits(batch, {})
        rows = await self.run(
            Condition(
                f"WITH hits AS MATERIALIZED (SELECT * FROM ({hits.text}) LIMIT {MOST_KEPT + 1}), "
                "counted AS MATERIALIZED (SELECT count(*) AS total FROM hits), "
                f"page AS (FROM hits WHERE (FROM counted) <= {MOST_KEPT} ORDER BY {ORDER} LIMIT ? OFFSET ?) "
                "SELECT page.*, total FROM counted LEFT JOIN page ON TRUE",
                (*hits.parameters, count, start),
            )
        )
        return _sort(_Row(*row[:-1]) for row in rows if row[0] is not None), rows[0][-1]

    async def _count(self, batch: Sequence[Part]) -> int:
        """How many hits there are."""
        hits = self._select_hits(batch, {})
        [(total,)] = await self.run(Condition(f"SELECT count(*) FROM ({hits.text})", hits.parameters))
        return int(total)

    async def find_doubtful(self, doubts: Doubts | None) -> None:
        """Let only those hits be tested that are in doubt, where the database can tell them."""
        if doubts is not None and len(doubts.patterns) <= MOST_PATTERNS:
            doubtful = find_doubtful(doubts)
            statement = f"SELECT {doubtful.text} FROM (SELECT 'x' AS name, FALSE AS is_dir)"
            if await self._database.accepts(statement, doubtful.parameters, seconds=self.check_time()):
                self._doubtful = doubtful

    async def count_by_folder(self) -> AsyncIterator[list[tuple[Any, ...]]]:
        """How many hits there are in each folder, some folders at a time: fields of _Group, in the order of files."""
        end = await self._count_ids()
        for batch in self._batches:
            yield await self._fetch_groups(
                part.count_by_fresh_folder(self.filters, self._doubtful) for part in batch if part.is_fresh
            )
            parts = [part for part in batch if part.row_count]
            step = FOLDERS // (len(parts) or 1)
            for first in range(0, end if parts else 0, step):
                ids = range(first, first + step)
                yield await self._fetch_groups(
                    part.count_by_folder(self.filters, ids, self._doubtful) for part in parts
                )

    async def _count_ids(self) -> int:
        """Every id of a folder is below this, in all places."""
        files = [str(file) for part in self.parts if part.place.segments for file in part.place.segments.folders]
        if not files:
            return 0
        [(last,)] = await self.run(Condition("SELECT max(id) FROM read_parquet(?)", (files,)))
        return 0 if last is None else int(last) + 1

    async def _fetch_groups(self, statements: Iterable[Condition]) -> list[tuple[Any, ...]]:
        found = list(statements)
        if not found:
            return []
        groups = unite(found)
        return await self.run(Condition(f"SELECT * FROM ({groups.text}) ORDER BY 1, 2", groups.parameters))

    async def fetch_tested(self, tests: Sequence[_Test], share: Share) -> list[tuple[Any, ...]]:
        """The doubtful hits in folders of one place, either all of them read again or none; key of the group first."""
        part, keys = self.parts[tests[0].group.place], [test.group.key for test in tests]
        select: Any = part.select_in_fresh_folders if tests[0].group.id is None else part.select_in_folders
        return await self.run(select(self.filters, keys, join_conditions((share.condition, self._doubtful))))


def _sort(rows: Iterable[_Row]) -> list[_Row]:
    return sorted(rows, key=lambda row: row.key)


def _select_seen(rows: Sequence[_Row], judge: Judge, search: _Search) -> Generator[None, None, list[_Row]]:
    """The rows that the caller may see."""
    verdicts: dict[str, Verdict] = {}
    seen = []
    for row in rows:
        if row.parent not in verdicts:
            verdicts[row.parent] = judge.judge(_decode_path(row.parent))
        verdict = verdicts[row.parent]
        if verdict is EVERYTHING or (callable(verdict) and verdict(row.hit)):
            seen.append(row)
        search.check_time()
        yield
    return seen


class _Judged:
    """What a caller may see of many hits: how many there are, and what of each place, by its number, is unseen."""

    def __init__(self, search: _Search, judge: Judge) -> None:
        self._search = search
        self._judge = judge
        self._kept = 0
        self.total = 0
        self.unseen: defaultdict[int, Unseen] = defaultdict(Unseen)

    async def run(self) -> None:
        """Judge all folders with hits."""
        await self._search.find_doubtful(self._judge.doubts)
        async for groups in self._search.count_by_folder():
            tests = await run_in_slices(self._judge_folders(groups))
            for batch in _make_batches(tests):
                await self._test(batch)

    def _judge_folders(self, groups: Sequence[tuple[Any, ...]]) -> Generator[None, None, list[_Test]]:
        """Those of the folders in which each hit must be tested."""
        tests = []
        for group in (_Group(*fields) for fields in groups):
            parent = _decode_path(group.parent)
            verdict = self._judge.judge(parent)
            if verdict is EVERYTHING:
                self.total += group.hits
            elif verdict is NOTHING:
                self._hide_folder(group)
            else:
                self.total += group.hits
                if group.doubtful:
                    tests.append(_Test(group, parent, verdict))
            self._search.check_time()
            yield
        return tests

    def _hide_folder(self, group: _Group) -> None:
        unseen = self.unseen[group.place]
        if group.id is None:
            unseen.fresh_folders.append(group.parent)
        else:
            unseen.hide_folder(group.id)

    async def _test(self, batch: Sequence[_Test]) -> None:
        shares = sum(test.group.doubtful for test in batch) // TESTED + 1
        for number in range(shares):
            rows = await self._search.fetch_tested(batch, Share(number, shares))
            for group, names in await run_in_slices(self._find_hidden(batch, rows)):
                self._hide_rows(group, names)

    def _find_hidden(
        self, batch: Sequence[_Test], rows: Sequence[tuple[Any, ...]]
    ) -> Generator[None, None, list[tuple[_Group, list[str]]]]:
        """The names that do not pass, by their folders."""
        tests = {test.group.key: test for test in batch}
        hidden: defaultdict[Any, list[str]] = defaultdict(list)
        for key, name, *rest in rows:
            if not tests[key].passes(Hit(tests[key].parent, decode_name(name), *rest)):
                hidden[key].append(name)
            self._search.check_time()
            yield
        return [(tests[key].group, names) for key, names in hidden.items()]

    def _hide_rows(self, group: _Group, names: Sequence[str]) -> None:
        self.total -= len(names)
        if len(names) == group.hits:
            self._hide_folder(group)
            return
        self._kept += len(names)
        if self._kept > MOST_UNSEEN:
            raise SearchTooSlow
        unseen = self.unseen[group.place]
        if group.id is None:
            unseen.fresh_rows += [(group.parent, name) for name in names]
        else:
            unseen.rows += [(group.id, name) for name in names]


def _make_batches(tests: Sequence[_Test]) -> Iterator[list[_Test]]:
    """The folders of one place with TESTED doubtful hits together, or one with more. They were all read again, or
    none."""
    batch: list[_Test] = []
    count = 0
    for test in tests:
        is_full = count + test.group.doubtful > TESTED
        if batch and (is_full or batch[0].group.place != test.group.place):
            yield batch
            batch, count = [], 0
        batch.append(test)
        count += test.group.doubtful
    if batch:
        yield batch
