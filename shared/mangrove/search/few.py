"""The hits of a search with few hits.

After a change, names that match are read from the segments first, in a statement of their own: segments do not change.
As a rule there are few or none. The second statement reads the tables, and looks up the folders of these names only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from mangrove.search.statements import Filters, Part, SegmentsPart
from mangrove.search.words import SqlCondition, unite

_FIELDS = "place, parent, name, folded, is_dir, size, modified, rank"

Fields = tuple[Any, ...]
Run = Callable[[SqlCondition], Awaitable[Sequence[Fields]]]


async def fetch_few(run: Run, parts: Sequence[Part], filters: Filters, limit: int) -> list[Fields] | None:
    """Return the fields of all hits, unordered; None if at least `limit` names match."""
    segments = [part for part in parts if isinstance(part, SegmentsPart)]
    if not any(part.place.has_delta for part in segments):
        rows = await run(_unite((part.select_few(filters, limit) for part in parts), limit))
        return [row for row in rows if row[1] is not None] if len(rows) < limit else None
    matches = await run(_unite((part.select_matches(filters, limit) for part in segments), limit))
    if len(matches) >= limit:
        return None
    located = list(_locate(parts, filters, matches, limit))
    hits = await run(_unite(located, limit)) if located else ()
    return [_make_hit(hit if match is None else matches[match], hit[1]) for match, *hit in hits]


def _unite(statements: Iterable[SqlCondition], limit: int) -> SqlCondition:
    rows = unite(statements)
    return SqlCondition(f"SELECT * FROM ({rows.text}) LIMIT {limit}", rows.parameters)


def _locate(parts: Sequence[Part], filters: Filters, matches: Sequence[Fields], limit: int) -> Iterator[SqlCondition]:
    """Yield statements that return, of names of the segments that are hits, the number and the path of the folder,
    and all fields of hits of the tables."""
    by_part: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for number, (part, folder, name, *_) in enumerate(matches):
        by_part[part].append((number, folder, name))
    for part in parts:
        if not isinstance(part, SegmentsPart):
            hits = part.select_few(filters, limit)
            yield SqlCondition(f"SELECT NULL AS match, {_FIELDS} FROM ({hits.text})", hits.parameters)
        elif part.number in by_part:
            names = part.select_parents(by_part[part.number])
            text = f"SELECT match, NULL, parent, NULL, NULL, NULL, NULL, NULL, NULL FROM ({names.text})"
            yield SqlCondition(text, names.parameters)


def _make_hit(fields: Sequence[Any], parent: str) -> Fields:
    """Return the fields of a hit with the path of its folder."""
    return fields[0], parent, *fields[2:]
