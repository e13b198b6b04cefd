"""The entries of a folder in columns: about thirty bytes per entry besides its name, and no Python object.

A million entries as objects need 300 MB, and take tens of milliseconds whenever the garbage collector visits them and
when they are freed. In columns they are a few blocks of memory.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import lt
from typing import Any, overload

import orjson

from mangrove.core import deadlines
from mangrove.core.chunked import CHUNK_ITEMS, chunked
from mangrove.drivers.base import Entry
from mangrove.drivers.plain_entries import NamedEntries, PlainEntries

IS_DIR, HAS_THUMB, IS_LINK, HAS_NO_SIZE, LACKS_DETAILS, IS_GONE = 1, 2, 4, 8, 16, 32
MAX_SIZE = (1 << 63) - 1
Positions = Sequence[int]  # a range, or an array of them
ReadDetails = Callable[[Sequence[str]], Awaitable[Sequence[Entry | None]]]


def encode_name(name: str) -> bytes:
    """Return a name in UTF-8, which has the same order as the name."""
    return name.encode("utf-8", "surrogatepass")


class Texts:
    """Byte strings in one block of memory, with eight bytes of overhead each.

    `is_sorted`: they are sorted, and no string occurs twice.
    """

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self.is_sorted = True
        self._joined: bytes | bytearray = bytearray()
        self._ends = array("Q", [0])
        self.extend(list(texts))

    @property
    def weight(self) -> int:
        """Its size in bytes."""
        return sys.getsizeof(self._joined) + sys.getsizeof(self._ends)

    def extend(self, texts: Sequence[bytes]) -> None:
        """Append several strings."""
        self._append(b"".join(texts), texts)

    def extend_by_names(self, names: Sequence[str]) -> None:
        """Append names, in UTF-8."""
        joined = "".join(names)
        if joined.isascii():
            self._append(joined.encode(), names)
        else:
            self.extend([encode_name(name) for name in names])

    def _append(self, joined: bytes, texts: Sequence[Any]) -> None:
        """Append the strings `texts`, which are bytes or ASCII text. `joined`: all of them."""
        if not texts:
            return
        if self.is_sorted and len(self):
            self.is_sorted = self[len(self) - 1] < joined[: len(texts[0])]
        self.is_sorted = self.is_sorted and all(map(lt, texts, texts[1:]))
        ends = accumulate(map(len, texts), initial=len(self._joined))
        next(ends)
        self._joined += joined
        self._ends.extend(ends)

    def freeze(self) -> None:
        """Release unused memory. Nothing can be added afterwards."""
        self._joined = bytes(self._joined)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def cut(self, start: int, stop: int) -> list[str] | None:
        """Return consecutive strings as text; None if they are not all ASCII."""
        first, last = self._ends[start], self._ends[stop]
        joined = self._joined[first:last]
        if not joined.isascii():
            return None
        text, ends = joined.decode(), self._ends[start : stop + 1]
        return [text[begin - first : end - first] for begin, end in pairwise(ends)]

    def __getitem__(self, index: int) -> bytes:
        return bytes(self._joined[self._ends[index] : self._ends[index + 1]])


class Columns:
    """Entries in the order in which they were added; `extend` appends up to CHUNK_ITEMS of them.

    `read`: reads the sizes and times of NamedEntries.
    """

    def __init__(self, read: ReadDetails | None = None) -> None:
        self.names = Texts()
        self.sizes = array("q")
        self.modified = array("d")
        self.flags = bytearray()
        self.has_thumbs = False
        self.has_gone = False  # entries were removed before their details were read
        self._read = read
        self._created: array[float] | None = None
        self._rest: Texts | None = None  # attributes that few entries have: as JSON, or nothing

    @property
    def weight(self) -> int:
        """Its size in bytes."""
        parts = (self.sizes, self.modified, self.flags, self._created)
        texts = (self.names, self._rest)
        return sum(sys.getsizeof(part) for part in parts if part is not None) + sum(
            text.weight for text in texts if text is not None
        )

    def __len__(self) -> int:
        return len(self.flags)

    def extend(self, entries: Sequence[Entry]) -> None:
        """Append several entries."""
        if not entries:
            return
        if isinstance(entries, PlainEntries):
            self._extend_plain(entries.names, entries.dirs, entries.sizes, entries.modified)
            return
        if isinstance(entries, NamedEntries):
            unknown = bytes(8 * len(entries))
            self._extend_plain(
                entries.names, entries.dirs.translate(_UNREAD_FLAGS), array("q", unknown), array("d", unknown)
            )
            return
        before = len(self)
        names, sizes, modified, dirs, created, hashes, thumbs, etags, origins, urls, links = zip(*entries, strict=True)
        self.names.extend_by_names(names)
        self.modified.extend(modified)
        self.flags += _make_flags(sizes, dirs, thumbs, links)
        self.has_thumbs = self.has_thumbs or any(thumbs)
        try:
            self.sizes.extend(sizes)
        except (TypeError, OverflowError):  # one is unknown or infinite; the ones before it are already added
            self.sizes.extend(min(size or 0, MAX_SIZE) for size in sizes[len(self.sizes) - before :])
        self._extend_created(before, created)
        self._extend_rest(before, hashes, etags, origins, urls)

    def _extend_plain(
        self, names: Sequence[str], flags: bytes | bytearray, sizes: Sequence[int], modified: Sequence[float]
    ) -> None:
        before, count = len(self), len(names)
        self.names.extend_by_names(names)
        self.modified.extend(modified)
        self.flags += flags
        self.sizes.extend(sizes)
        if self._created is not None:
            self._extend_created(before, [0.0] * count)
        if self._rest is not None:
            self._rest.extend([b""] * count)

    def freeze(self) -> None:
        """Release unused memory. Nothing can be added afterwards."""
        for texts in (self.names, self._rest):
            if texts is not None:
                texts.freeze()

    def _extend_created(self, before: int, created: Sequence[float]) -> None:
        if any(created) and self._created is None:
            self._created = array("d", bytes(8 * before))
        if self._created is not None:
            self._created.extend(created)

    def _extend_rest(self, before: int, *columns: Sequence[Any]) -> None:
        if self._rest is None and any(map(any, columns)):
            self._rest = Texts([b""] * before)
        if self._rest is not None:
            self._rest.extend([_encode_rest(*values) for values in zip(*columns, strict=True)])

    def get_name(self, index: int) -> str:
        """Return the name of an entry."""
        return self.names[index].decode("utf-8", "surrogatepass")

    def list_names(self, start: int, stop: int) -> list[str]:
        """Return the names of consecutive entries."""
        names = self.names.cut(start, stop)
        return names if names is not None else [self.get_name(index) for index in range(start, stop)]

    async def read_details(self, positions: Positions) -> None:
        """Read the sizes and times that entries lack. Entries that were removed meanwhile are not shown from then on.

        Raise StorageProblem.
        """
        if self._read is None:
            return
        for start in range(0, len(positions), CHUNK_ITEMS):
            if start:
                await asyncio.sleep(0)
            deadlines.check()
            unread = [at for at in positions[start : start + CHUNK_ITEMS] if self.flags[at] & LACKS_DETAILS]
            details = await self._read([self.get_name(at) for at in unread]) if unread else ()
            for at, entry in zip(unread, details, strict=True):
                self._set_details(at, entry)

    def _set_details(self, index: int, entry: Entry | None) -> None:
        if not self.flags[index] & LACKS_DETAILS:
            return  # another caller has read them: size and time are of the same moment
        if entry is None:
            self.flags[index], self.has_gone = IS_GONE, True
            return
        self.sizes[index], self.modified[index] = entry.size or 0, entry.modified
        self.flags[index] = IS_DIR * entry.is_dir | IS_LINK * entry.is_link

    def select_existing(self, positions: Positions) -> Iterable[int]:
        """Return the positions without those of entries that were found to be gone."""
        return [at for at in positions if not self.flags[at] & IS_GONE] if self.has_gone else positions

    def __getitem__(self, index: int) -> Entry:
        flags = self.flags[index]
        size = None if flags & (HAS_NO_SIZE | LACKS_DETAILS) else self.sizes[index]
        entry = Entry(self.get_name(index), size, self.modified[index], bool(flags & IS_DIR))
        if flags & (HAS_THUMB | IS_LINK):
            entry = entry._replace(thumb=bool(flags & HAS_THUMB), is_link=bool(flags & IS_LINK))
        if self._created is not None:
            entry = entry._replace(created=self._created[index])
        rest = self._rest[index] if self._rest is not None else b""
        if rest:
            hashes, etag, provider, url = orjson.loads(rest)
            entry = entry._replace(hashes=hashes, etag=etag, provider=provider, url=url)
        return entry


_UNREAD_FLAGS = bytes(flags | LACKS_DETAILS for flags in range(256))


@chunked
def make_columns(entries: Sequence[Entry]) -> Generator[None, None, Columns]:
    """Make the columns of many entries."""
    columns = Columns()
    for start in range(0, len(entries), CHUNK_ITEMS):
        columns.extend(entries[start : start + CHUNK_ITEMS])
        yield
    columns.freeze()
    return columns


def _make_flags(
    sizes: Sequence[int | None], dirs: Sequence[bool], thumbs: Sequence[bool], links: Sequence[bool]
) -> bytes:
    if None not in sizes and not any(thumbs) and not any(links):
        return bytes(dirs)
    return bytes(
        IS_DIR * is_dir | HAS_THUMB * thumb | IS_LINK * link | HAS_NO_SIZE * (size is None)
        for size, is_dir, thumb, link in zip(sizes, dirs, thumbs, links, strict=True)
    )


def _encode_rest(hashes: Any, etag: str, provider: str, url: str) -> bytes:
    if not (hashes or etag or provider or url):
        return b""
    return orjson.dumps((dict(hashes) if hashes else None, etag, provider, url))


@dataclass(eq=False, slots=True)
class Selection(Sequence[Entry]):
    """Entries of `columns` in an order of its own."""

    columns: Columns
    positions: Positions

    @property
    def weight(self) -> int:
        """Its size in bytes, without the columns."""
        return sys.getsizeof(self.positions)

    def __len__(self) -> int:
        return len(self.positions)

    async def read_details(self, start: int = 0, stop: int | None = None) -> None:
        """Read the sizes and times that these entries lack; see `Columns.read_details`."""
        await self.columns.read_details(self.positions[start:stop])

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self.columns[position] for position in self.columns.select_existing(self.positions[index])]
        return self.columns[self.positions[index]]

    def __iter__(self) -> Iterator[Entry]:
        return map(self.columns.__getitem__, self.columns.select_existing(self.positions))

    @chunked
    def select(self, test: Callable[[Entry], bool]) -> Generator[None, None, Selection]:
        """Return the entries that pass."""
        chosen = array("I")
        for position in self.positions:
            if test(self.columns[position]):
                chosen.append(position)
            yield
        return Selection(self.columns, chosen)

    def find_range(self, prefix: bytes) -> Selection:
        """Return the entries whose UTF-8 names start with `prefix`. The entries must be sorted by name."""
        names, length = self.columns.names, len(prefix)

        def get_start(position: int) -> bytes:
            return names[position][:length]

        start = bisect_left(self.positions, prefix, key=get_start)
        return Selection(
            self.columns, self.positions[start : bisect_right(self.positions, prefix, start, key=get_start)]
        )

    def find_last(self, name: str) -> Entry | None:
        """Return the last entry of that name. The entries must be sorted by name."""
        encoded_name = encode_name(name)
        names = self.columns.names
        index = bisect_right(self.positions, encoded_name, key=names.__getitem__) - 1
        if (
            index < 0
            or names[self.positions[index]] != encoded_name
            or self.columns.flags[self.positions[index]] & IS_GONE
        ):
            return None
        return self[index]
