"""The header of a 7z archive: its folders of packed streams, and its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from mangrove.problems import ArchiveTooLarge, BrokenArchive

MOST_CODERS = 10  # of a folder: 7-Zip makes 8 at most; also the streams that one of them takes or gives
DICTIONARIES = (b"\x21", b"\x03\x01\x01", b"\x04\xf7\x11\x01")  # LZMA2, LZMA, zstd: up to MEMORY for each
MOST_PACKED = 4  # streams that a folder is packed in, on average
DAMAGED = "the archive's header is damaged"
END, HEADER, PACKED_HEADER, DUMMY = 0x00, 0x01, 0x17, 0x19
_EPOCH = 116_444_736_000_000_000  # 100 ns units from 1601 to 1970


@dataclass(slots=True)
class Coder:
    id: bytes
    properties: bytes
    takes: int
    gives: int


@dataclass(slots=True)
class Folder:
    """Streams packed together. `sizes`: what each coder gives; `chain`: the coders from the packed bytes to the
    files, empty when they are no chain; `start` and `packed`: where the packed bytes are, in the file."""

    coders: list[Coder]
    chain: list[int]
    main: int
    streams: int
    sizes: list[int] = field(default_factory=list)
    crc: int | None = None
    start: int = 0
    packed: int = 0
    parts: list[tuple[int, int | None]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.sizes[self.main] if self.sizes else 0

    @property
    def encrypted(self) -> bool:
        return any(coder.id == b"\x06\xf1\x07\x01" for coder in self.coders)


@dataclass(frozen=True, slots=True)
class File:
    """One entry. `folder` is -1 when it has no bytes; else they begin at `start` in the unpacked folder."""

    name: str
    size: int
    modified: float
    attributes: int
    is_dir: bool
    is_anti: bool
    crc: int | None
    folder: int
    start: int


class Reader:
    """The header's bytes; BrokenArchive when they end too early."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.at = 0

    def take(self, length: int) -> bytes:
        found = self._raw[self.at : self.at + length]
        if length < 0 or len(found) != length:
            raise BrokenArchive(DAMAGED)
        self.at += length
        return found

    def byte(self) -> int:
        return self.take(1)[0]

    def fixed(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def number(self) -> int:
        """The format's own numbers of 1 to 9 bytes."""
        first = self.byte()
        low, mask = 0, 0x80
        for place in range(8):
            if not first & mask:
                return low | (first & (mask - 1)) << (8 * place)
            low |= self.byte() << (8 * place)
            mask >>= 1
        return low

    def count(self, most: int) -> int:
        """A number that cannot be larger than `most`, nor than what is left of the header lets it be."""
        found = self.number()
        if found > most:
            raise BrokenArchive(DAMAGED)
        return found

    def bits(self, count: int) -> list[bool]:
        raw = self.take((count + 7) // 8)
        return [bool(raw[at >> 3] & (0x80 >> (at & 7))) for at in range(count)]

    def some(self, count: int) -> list[bool]:
        return [True] * count if self.byte() else self.bits(count)

    def digests(self, count: int) -> list[int | None]:
        return [self.fixed(4) if told else None for told in self.some(count)]

    @property
    def left(self) -> int:
        return len(self._raw) - self.at

    def kinds(self) -> Iterator[int]:
        """The kinds of what follows, up to the end. BrokenArchive when one comes again: a few bytes that are read as
        often as they stand there would each cost a walk through everything that came before."""
        seen: set[int] = set()
        while (kind := self.number()) != END:
            if kind in seen:
                raise BrokenArchive(DAMAGED)
            if kind != DUMMY:  # fills up
                seen.add(kind)
            yield kind


def streams(reader: Reader, most: int, base: int) -> list[Folder]:
    """The folders a StreamsInfo tells of; at most `most` folders and files. `base` is where packed bytes begin."""
    place, packed = base, list[int]()
    folders: list[Folder] = []
    divided = False
    for kind in reader.kinds():
        if kind == 0x06:
            place, packed = _pack_info(reader, base, most)
        elif kind == 0x07:
            folders = _coders_info(reader, most)
        elif kind == 0x08:
            _substreams(reader, folders, most)
            divided = True
        else:
            raise BrokenArchive(DAMAGED)
    _place(folders, place, packed)
    if not divided:
        for folder in folders:
            folder.parts = [(folder.size, folder.crc)]
    return folders


def _pack_info(reader: Reader, base: int, most: int) -> tuple[int, list[int]]:
    place = base + reader.number()
    count = reader.count(reader.left)
    if most and count > most * MOST_PACKED:
        raise ArchiveTooLarge(f"the archive has more than {most} entries")
    sizes: list[int] = []
    for kind in reader.kinds():
        if kind == 0x09:
            sizes = [reader.number() for _ in range(count)]
        elif kind == 0x0A:
            reader.digests(count)
        else:
            raise BrokenArchive(DAMAGED)
    return place, sizes


def _coders_info(reader: Reader, most: int) -> list[Folder]:
    if reader.byte() != 0x0B:
        raise BrokenArchive(DAMAGED)
    count = reader.count(reader.left)
    if most and count > most:
        raise ArchiveTooLarge(f"the archive has more than {most} entries")
    if reader.byte():
        raise BrokenArchive(DAMAGED)
    folders = [_folder(reader) for _ in range(count)]
    for kind in reader.kinds():
        if kind == 0x0C:
            for folder in folders:
                folder.sizes = [reader.number() for _ in range(sum(coder.gives for coder in folder.coders))]
        elif kind == 0x0A:
            for folder, crc in zip(folders, reader.digests(count), strict=True):
                folder.crc = crc
        else:
            raise BrokenArchive(DAMAGED)
    if not all(folder.sizes for folder in folders):
        raise BrokenArchive(DAMAGED)
    return folders


def _folder(reader: Reader) -> Folder:
    coders = []
    for _ in range(reader.count(MOST_CODERS)):
        flags = reader.byte()
        id = reader.take(flags & 15)
        takes, gives = (reader.count(MOST_CODERS), reader.count(MOST_CODERS)) if flags & 0x10 else (1, 1)
        properties = reader.take(reader.count(reader.left)) if flags & 0x20 else b""
        coders.append(Coder(id, properties, takes, gives))
    inputs, outputs = sum(coder.takes for coder in coders), sum(coder.gives for coder in coders)
    if not outputs or inputs < outputs - 1 or inputs > 2 * MOST_CODERS:
        raise BrokenArchive(DAMAGED)
    bound = dict((reader.count(inputs), reader.count(outputs)) for _ in range(outputs - 1))
    packed = inputs - len(bound)
    if packed > 1:
        for _ in range(packed):
            reader.count(inputs)
    free = set(range(outputs)).difference(bound.values())
    if len(free) != 1:
        raise BrokenArchive(DAMAGED)
    main = free.pop()
    return Folder(coders, _chain(coders, bound, main), main, packed)


def _chain(coders: list[Coder], bound: dict[int, int], main: int) -> list[int]:
    """The coders from the packed bytes on; empty when one takes or gives more than one stream, or when several keep a
    dictionary, for which nobody has a use and an attacker has one each."""
    if any((coder.takes, coder.gives) != (1, 1) for coder in coders):
        return []
    if sum(coder.id in DICTIONARIES for coder in coders) > 1:
        return []
    chain = [main]
    while chain[-1] in bound and len(chain) <= len(coders):
        chain.append(bound[chain[-1]])
    return chain[::-1] if len(chain) == len(coders) else []


def _substreams(reader: Reader, folders: list[Folder], most: int) -> None:
    counts = [1] * len(folders)
    sizes: list[list[int]] = []
    digests: list[int | None] = []
    kind = reader.byte()
    if kind == 0x0D:
        counts = [reader.number() for _ in folders]
        kind = reader.byte()
    if most and sum(counts) > most:
        raise ArchiveTooLarge(f"the archive has more than {most} entries")
    for folder, count in zip(folders, counts, strict=True):
        first = [reader.number() for _ in range(count - 1)] if kind == 0x09 else []
        last = folder.size - sum(first)
        if last < 0 or (count > 1 and kind != 0x09):
            raise BrokenArchive(DAMAGED)
        sizes.append([*first, last] if count else [])
    if kind == 0x09:
        kind = reader.byte()
    whole = [count == 1 and folder.crc is not None for folder, count in zip(folders, counts, strict=True)]
    if kind == 0x0A:
        digests = reader.digests(sum(count for count, told in zip(counts, whole, strict=True) if not told))
        kind = reader.byte()
    if kind != END:
        raise BrokenArchive(DAMAGED)
    crcs = iter(digests)
    for folder, told, parts in zip(folders, whole, sizes, strict=True):
        folder.parts = [(size, folder.crc if told else next(crcs, None)) for size in parts]


def _place(folders: list[Folder], place: int, packed: list[int]) -> None:
    starts = [place, *accumulate(packed, initial=place)][1:]
    at = 0
    for folder in folders:
        if at + folder.streams > len(packed):
            raise BrokenArchive(DAMAGED)
        folder.start, folder.packed = starts[at], sum(packed[at : at + folder.streams])
        at += folder.streams


def files(reader: Reader, folders: list[Folder], most: int) -> list[File]:
    """The entries a FilesInfo tells of, each with its part of a folder."""
    count = reader.number()
    if most and count > most:
        raise ArchiveTooLarge(f"the archive has more than {most} entries")
    if count > reader.left * 8:
        raise BrokenArchive(DAMAGED)
    told = _Told(count)
    for kind in reader.kinds():
        size = reader.count(reader.left)
        told.take(kind, Reader(reader.take(size)))
    return told.files(folders)


class _Told:
    """The properties of all files, gathered one by one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.names = [""] * count
        self.empty = [False] * count
        self.empty_files: list[bool] = []
        self.anti: list[bool] = []
        self.times = [0] * count
        self.attributes = [0] * count

    def take(self, kind: int, reader: Reader) -> None:
        if kind == 0x0E:
            self.empty = reader.bits(self.count)
        elif kind == 0x0F:
            self.empty_files = reader.bits(sum(self.empty))
        elif kind == 0x10:
            self.anti = reader.bits(sum(self.empty))
        elif kind == 0x11:
            self.names = self._names(reader)
        elif kind in (0x14, 0x15):
            told = reader.some(self.count)
            self._internal(reader)
            width, values = (8, self.times) if kind == 0x14 else (4, self.attributes)
            for at, one in enumerate(told):
                values[at] = reader.fixed(width) if one else 0

    def _names(self, reader: Reader) -> list[str]:
        self._internal(reader)
        found = reader.take(reader.left).decode("utf-16-le", errors="replace")
        if found.count("\0") != self.count:
            raise BrokenArchive(DAMAGED)
        return found.split("\0")[:-1]

    @staticmethod
    def _internal(reader: Reader) -> None:
        if reader.byte():
            raise BrokenArchive(DAMAGED)

    def files(self, folders: list[Folder]) -> list[File]:
        parts = _parts(folders)
        empty = 0
        found = []
        for at in range(self.count):
            size, crc, folder, start, is_dir, anti = 0, None, -1, 0, False, False
            if self.empty[at]:
                is_dir = not (empty < len(self.empty_files) and self.empty_files[empty])
                anti = empty < len(self.anti) and self.anti[empty]
                empty += 1
            elif not parts:
                raise BrokenArchive(DAMAGED)
            else:
                size, crc, folder, start = parts.pop()
            modified = max((self.times[at] - _EPOCH) / 1e7, 0.0) if self.times[at] else 0.0
            attributes = self.attributes[at]
            found.append(File(self.names[at], size, modified, attributes, is_dir, anti, crc, folder, start))
        return found


def _parts(folders: list[Folder]) -> list[tuple[int, int | None, int, int]]:
    """Size, checksum, folder and place of each stream, the last first."""
    found = []
    for number, folder in enumerate(folders):
        start = 0
        for size, crc in folder.parts:
            found.append((size, crc, number, start))
            start += size
    return found[::-1]
