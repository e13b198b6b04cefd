"""The orders in which a folder is listed, sorting, and merging with other folders."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import not_
from typing import Any, TypeAlias
from unicodedata import combining, normalize

from mangrove.core.chunked import CHUNK_ITEMS, chunked, iterate_chunked
from mangrove.drivers.base import Entry
from mangrove.records.storages import Storage
from mangrove.tree.listing.columns import IS_DIR, Columns, Positions, Selection, Texts, encode_name, make_columns

SAMPLES_PER_RUN = 8  # of each sorted run
Keys: TypeAlias = "Texts | array[Any]"  # by position; Python 3.11 has no `array[Any]` at run time


@dataclass(frozen=True, slots=True)
class SortOrder:
    """An order of entries."""

    by: str = ""  # name, size, modified, or "" for the order of the storage's answer
    descending: bool = False
    folders: str = ""  # front, back, or "" for among the files
    is_requested: bool = False  # by a client or a share link: names compare without case, folders of mounts are sorted

    @classmethod
    def of(cls, storage: Storage) -> SortOrder:
        """Return the order of a storage."""
        return cls(storage.order_by, storage.order_direction == "desc", storage.extract_folder)

    @property
    def is_of_storage(self) -> bool:
        """True for the order of the storage's answer."""
        return not self.by and self.folders not in ("front", "back")

    def make_key(self, entry: Entry) -> Any:
        """Return the key for comparing entries."""
        if self.by == "name":
            return self.make_name_key(entry.name)
        return (entry.size or 0) if self.by == "size" else entry.modified

    def make_name_key(self, name: str) -> bytes:
        """Return the key for comparing names."""
        return make_caseless_key(name) if self.is_requested else make_natural_key(name)

    def make_name_keys(self, names: Sequence[str]) -> list[bytes]:
        """Return the keys for comparing many names."""
        joined = _SEPARATOR.join(names)
        keys = _make_ascii_keys(joined, self.is_requested) if joined.isascii() else []
        return keys if len(keys) == len(names) else list(map(self.make_name_key, names))


def sort_in_runs(positions: Positions, key: Callable[[int], Any]) -> Iterator[Sequence[int]]:
    """Yield `sorted(positions, key=key)` in consecutive parts, some of them empty; each takes a few milliseconds.

    Sorted runs of CHUNK_ITEMS positions are cut at the same keys, and the pieces between two cuts are sorted together.
    """
    runs: list[list[int]] = []
    for start in range(0, len(positions), CHUNK_ITEMS):
        runs.append(sorted(positions[start : start + CHUNK_ITEMS], key=key))
        yield ()
    if len(runs) < 2:
        yield from runs
        return
    starts = [0] * len(runs)
    for cut, find in [*_choose_cuts(runs, key), (None, None)]:
        pieces = []
        for number, run in enumerate(runs):
            stop = len(run) if find is None else find(run, cut, starts[number], key=key)
            pieces.append(run[starts[number] : stop])
            starts[number] = stop
        if find is bisect_right:
            yield from pieces  # all of one key
        else:
            yield sorted(chain.from_iterable(pieces), key=key)


def _choose_cuts(runs: Sequence[Sequence[int]], key: Callable[[int], Any]) -> list[tuple[Any, Any]]:
    """Return about as many keys as there are runs, each with the function that finds its position. A key that many
    entries have is cut on both sides."""
    keys = sorted(key(run[index]) for run in runs for index in range(0, len(run), CHUNK_ITEMS // SAMPLES_PER_RUN))
    cuts: list[tuple[Any, Any]] = []
    for cut in keys[SAMPLES_PER_RUN::SAMPLES_PER_RUN]:
        if not cuts or cuts[-1][0] != cut:
            cuts.append((cut, bisect_left))
        elif cuts[-1][1] is bisect_left:
            cuts.append((cut, bisect_right))
    return cuts


def _sort_by(keys: Keys, positions: Positions, descending: bool) -> Generator[None, None, Positions]:
    """Sort positions by their keys, in steps. The sort is stable. Sorted texts are all different: nothing moves."""
    ordered: Positions = range(len(keys))
    if not (isinstance(keys, Texts) and keys.is_sorted and len(positions) == len(keys)):
        ordered = array("I")
        for part in sort_in_runs(positions[::-1] if descending else positions, keys.__getitem__):
            ordered.extend(part)
            yield
    return ordered[::-1] if descending else ordered


def _make_keys(columns: Columns, order: SortOrder) -> Generator[None, None, Keys]:
    """Return the key of each entry, in steps. Keys of names are usually sorted for storages that list by name."""
    if order.by != "name":
        return columns.sizes if order.by == "size" else columns.modified
    keys = Texts()
    for start in range(0, len(columns), CHUNK_ITEMS // 8):
        keys.extend(order.make_name_keys(columns.list_names(start, min(start + CHUNK_ITEMS // 8, len(columns)))))
        yield
    return keys


def _group_folders(columns: Columns, positions: Positions, first: bool) -> Generator[None, None, Positions]:
    """Put all folders in front of the files, or behind them, in steps."""
    folders, files = array("I"), array("I")
    for start in range(0, len(positions), CHUNK_ITEMS):
        part = positions[start : start + CHUNK_ITEMS]
        are_dirs = [columns.flags[position] & IS_DIR for position in part]
        folders.extend(compress(part, are_dirs))
        files.extend(compress(part, map(not_, are_dirs)))
        yield
    return folders + files if first else files + folders


async def sort_columns(columns: Columns, order: SortOrder) -> Selection:
    """Sort all entries of the columns. The sort is stable. Sizes or times that it needs and that lack are read."""
    if order.by in ("size", "modified"):
        await columns.read_details(range(len(columns)))
    return await _sort(columns, order)


@chunked
def _sort(columns: Columns, order: SortOrder) -> Generator[None, None, Selection]:
    positions: Positions = range(len(columns))
    if order.by:
        keys = yield from _make_keys(columns, order)
        positions = yield from _sort_by(keys, positions, order.descending)
    if order.folders in ("front", "back"):
        positions = yield from _group_folders(columns, positions, order.folders == "front")
    return Selection(columns, positions)


@chunked
def sort_by_name(entries: Selection) -> Generator[None, None, Selection]:
    """Sort entries by name. The sort is stable."""
    return Selection(entries.columns, (yield from _sort_by(entries.columns.names, entries.positions, False)))


async def sort_entries(entries: Sequence[Entry], order: SortOrder) -> Selection:
    """Sort entries."""
    return await sort_columns(await make_columns(entries), order)


def find_folder_position(entries: Selection, order: SortOrder, folder: Entry) -> int:
    """Return the number of sorted entries that come before one more folder."""
    columns = entries.columns
    folder_key = order.make_key(folder)

    def is_behind(position: int) -> bool:
        if order.folders in ("front", "back") and not columns.flags[position] & IS_DIR:
            return order.folders == "front"
        key = order.make_key(columns[position])
        return bool(key < folder_key if order.descending else key > folder_key)

    return bisect_left(entries.positions, True, key=is_behind)


async def merge_page(
    entries: Selection, order: SortOrder, folders: Sequence[Entry], start: int, stop: int
) -> list[tuple[int, int] | Entry]:
    """Merge other folders into entries that are sorted, and return the pieces of rows `start` to `stop`.

    A piece is a range of the entries, or a folder. Folders come last unless an order is requested.
    """
    positions = [len(entries)] * len(folders)
    if order.is_requested:
        folders = sorted(folders, key=order.make_key, reverse=order.descending)
        positions = [find_folder_position(entries, order, folder) async for folder in iterate_chunked(folders)]
    return list(cut_page(start, stop, positions, folders))


def cut_page(
    start: int, stop: int, positions: Sequence[int], folders: Sequence[Entry]
) -> Iterator[tuple[int, int] | Entry]:
    """Yield the pieces of rows `start` to `stop` of entries, merged with other folders.

    The folder `i` comes after `positions[i]` entries. A piece is a range of the entries, or a folder.
    """
    passed = sum(position + number < start for number, position in enumerate(positions))
    row = start - passed
    for number in range(passed, len(positions)):
        if positions[number] + number >= stop:
            break
        yield row, positions[number]
        yield folders[number]
        row, passed = positions[number], number + 1
    yield row, stop - passed


_digits = re.compile(r"\d+")
MAX_NUMBER_DIGITS = 4000  # digits; a longer one is text


def make_natural_key(name: str) -> bytes:
    """Return a key that sorts `a2` before `a10`; letters compare with case.

    A number becomes a zero byte, which comes before all text, its length and its digits; then, for equal numbers, its
    original spelling.
    """
    return encode_name(_digits.sub(_make_number_key, name))


def make_caseless_key(name: str) -> bytes:
    """Return a natural key that sorts `alpha` before `Zeta`; case and accents decide between equal names."""
    folded = _fold(name)
    key = _digits.sub(_make_number_key, folded)
    return encode_name(key if folded == name else f"{key}\0\0{name}")


_ascii_digits = re.compile("([0-9]+)")
_SEPARATOR = "/"  # no name has it


def _make_ascii_keys(joined: str, ignores_case: bool) -> list[bytes]:
    """Return the keys of joined names: those that `make_natural_key` or `make_caseless_key` makes of each, in half the
    time. Return another number of keys if a name has a number whose key is not its own."""
    folded = joined.lower() if ignores_case else joined
    pieces = _ascii_digits.split(folded)
    numbers = pieces[1::2]
    if any(len(number) >= MAX_NUMBER_DIGITS for number in numbers):
        return []
    pieces[1::2] = [_format_number(number.lstrip("0") or "0", number) for number in numbers]
    keys = encode_name("".join(pieces)).split(_SEPARATOR.encode())
    if folded == joined:
        return keys
    names, lowered = joined.split(_SEPARATOR), folded.split(_SEPARATOR)
    if len(keys) != len(names):
        return []
    return [
        key if name == low else key + b"\0\0" + name.encode()
        for key, name, low in zip(keys, names, lowered, strict=True)
    ]


def _fold(name: str) -> str:
    """Return a name without case and accents."""
    if name.isascii():
        return name.lower()
    return "".join(letter for letter in normalize("NFKD", name) if not combining(letter)).casefold()


def _make_number_key(match: re.Match[str]) -> str:
    written = match.group()
    if len(written) >= MAX_NUMBER_DIGITS:
        return written
    return _format_number(str(int(written)), written)


def _format_number(number: str, written: str) -> str:
    return f"\0{chr(len(number))}{number}{written}\0"
