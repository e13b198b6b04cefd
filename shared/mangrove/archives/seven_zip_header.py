"""The header of a 7z archive: its folders of packed streams, and its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from mangrove.core.problems import ArchiveTooLarge, BrokenArchive

MAX_CODERS = 10  # of a folder (7-Zip writes 8 at most), and streams into or out of one of them
DICTIONARY_METHODS = (b"\x21", b"\x03\x01\x01", b"\x04\xf7\x11\x01")  # LZMA2, LZMA, zstd: up to MAX_MEMORY each
SIGNATURE_HEADER_BYTES = 32  # in front of the packed bytes
MAX_PACKED_STREAMS = 4  # packed streams of a folder, on average
DAMAGED = "the archive's header is damaged"
END, HEADER, PACKED_HEADER, DUMMY = 0x00, 0x01, 0x17, 0x19
_EPOCH = 116_444_736_000_000_000  # 100 ns units from 1601 to 1970


@dataclass(slots=True)
class Coder:
    id: bytes
    properties: bytes
    inputs: int
    outputs: int


@dataclass(slots=True)
class PackedFolder:
    """Files that are packed together.

    `sizes`: the output of each coder in bytes; `chain`: the coders from the packed bytes to the files, empty if they
    are not a chain; `start` and `packed`: position and length of the packed bytes in the file; `parts`: size and
    checksum of each file.
    """

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
class PackedFile:
    """One entry. `folder` is -1 if it has no bytes; otherwise they start at `start` in the unpacked folder."""

    name: str
    size: int
    modified: float
    attributes: int
    is_dir: bool
    is_anti: bool
    crc: int | None
    folder: int
    start: int


class HeaderReader:
    """A reader of the fields of a header. It raises BrokenArchive if the header ends too early."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._position = 0

    def read(self, length: int) -> bytes:
        content = self._raw[self._position : self._position + length]
        if length < 0 or len(content) != length:
            raise BrokenArchive(DAMAGED)
        self._position += length
        return content

    def read_byte(self) -> int:
        return self.read(1)[0]

    def read_fixed(self, length: int) -> int:
        return int.from_bytes(self.read(length), "little")

    def read_number(self) -> int:
        """Return a number in the format's own encoding of 1 to 9 bytes."""
        first = self.read_byte()
        low, mask = 0, 0x80
        for index in range(8):
            if not first & mask:
                return low | (first & (mask - 1)) << (8 * index)
            low |= self.read_byte() << (8 * index)
            mask >>= 1
        return low

    def read_count(self, limit: int) -> int:
        """Return a number. Raise BrokenArchive if it is larger than `limit`."""
        count = self.read_number()
        if count > limit:
            raise BrokenArchive(DAMAGED)
        return count

    def read_bits(self, count: int) -> list[bool]:
        raw = self.read((count + 7) // 8)
        return [bool(raw[index >> 3] & (0x80 >> (index & 7))) for index in range(count)]

    def read_optional_bits(self, count: int) -> list[bool]:
        """Return bits, stored as one byte if all are set."""
        return [True] * count if self.read_byte() else self.read_bits(count)

    def read_digests(self, count: int) -> list[int | None]:
        return [self.read_fixed(4) if defined else None for defined in self.read_optional_bits(count)]

    @property
    def remaining(self) -> int:
        return len(self._raw) - self._position

    def iter_properties(self) -> Iterator[int]:
        """Yield the ids of the properties that follow.

        Raise BrokenArchive if one is repeated: each repetition would cost a pass over everything before it.
        """
        seen: set[int] = set()
        while (kind := self.read_number()) != END:
            if kind in seen:
                raise BrokenArchive(DAMAGED)
            if kind != DUMMY:  # padding
                seen.add(kind)
            yield kind


def parse_streams(reader: HeaderReader, limit: int) -> list[PackedFolder]:
    """Return the folders of a StreamsInfo; at most `limit` folders and files."""
    position, packed = SIGNATURE_HEADER_BYTES, list[int]()
    folders: list[PackedFolder] = []
    has_substreams = False
    for kind in reader.iter_properties():
        if kind == 0x06:
            position, packed = _parse_pack_info(reader, limit)
        elif kind == 0x07:
            folders = _parse_coders_info(reader, limit)
        elif kind == 0x08:
            _parse_substreams(reader, folders, limit)
            has_substreams = True
        else:
            raise BrokenArchive(DAMAGED)
    _assign_positions(folders, position, packed)
    if not has_substreams:
        for folder in folders:
            folder.parts = [(folder.size, folder.crc)]
    return folders


def _parse_pack_info(reader: HeaderReader, limit: int) -> tuple[int, list[int]]:
    position = SIGNATURE_HEADER_BYTES + reader.read_number()
    count = reader.read_count(reader.remaining)
    if limit and count > limit * MAX_PACKED_STREAMS:
        raise ArchiveTooLarge(f"the archive has more than {limit} entries")
    sizes: list[int] = []
    for kind in reader.iter_properties():
        if kind == 0x09:
            sizes = [reader.read_number() for _ in range(count)]
        elif kind == 0x0A:
            reader.read_digests(count)
        else:
            raise BrokenArchive(DAMAGED)
    return position, sizes


def _parse_coders_info(reader: HeaderReader, limit: int) -> list[PackedFolder]:
    if reader.read_byte() != 0x0B:
        raise BrokenArchive(DAMAGED)
    count = reader.read_count(reader.remaining)
    if limit and count > limit:
        raise ArchiveTooLarge(f"the archive has more than {limit} entries")
    if reader.read_byte():
        raise BrokenArchive(DAMAGED)
    folders = [_parse_folder(reader) for _ in range(count)]
    for kind in reader.iter_properties():
        if kind == 0x0C:
            for folder in folders:
                folder.sizes = [reader.read_number() for _ in range(sum(coder.outputs for coder in folder.coders))]
        elif kind == 0x0A:
            for folder, crc in zip(folders, reader.read_digests(count), strict=True):
                folder.crc = crc
        else:
            raise BrokenArchive(DAMAGED)
    if not all(folder.sizes for folder in folders):
        raise BrokenArchive(DAMAGED)
    return folders


def _parse_folder(reader: HeaderReader) -> PackedFolder:
    coders = []
    for _ in range(reader.read_count(MAX_CODERS)):
        flags = reader.read_byte()
        id = reader.read(flags & 15)
        counts = (reader.read_count(MAX_CODERS), reader.read_count(MAX_CODERS)) if flags & 0x10 else (1, 1)
        properties = reader.read(reader.read_count(reader.remaining)) if flags & 0x20 else b""
        coders.append(Coder(id, properties, *counts))
    inputs, outputs = sum(coder.inputs for coder in coders), sum(coder.outputs for coder in coders)
    if not outputs or inputs < outputs - 1 or inputs > 2 * MAX_CODERS:
        raise BrokenArchive(DAMAGED)
    bindings = dict((reader.read_count(inputs), reader.read_count(outputs)) for _ in range(outputs - 1))
    packed = inputs - len(bindings)
    if packed > 1:
        for _ in range(packed):
            reader.read_count(inputs)
    free = set(range(outputs)).difference(bindings.values())
    if len(free) != 1:
        raise BrokenArchive(DAMAGED)
    main = free.pop()
    return PackedFolder(coders, _find_chain(coders, bindings, main), main, packed)


def _find_chain(coders: list[Coder], bindings: dict[int, int], main: int) -> list[int]:
    """Return the coders from the packed bytes on.

    The result is empty if one has more than one input or output, or if several have a dictionary: no program writes
    that, and it would multiply the memory.
    """
    if any((coder.inputs, coder.outputs) != (1, 1) for coder in coders):
        return []
    if sum(coder.id in DICTIONARY_METHODS for coder in coders) > 1:
        return []
    chain = [main]
    while chain[-1] in bindings and len(chain) <= len(coders):
        chain.append(bindings[chain[-1]])
    return chain[::-1] if len(chain) == len(coders) else []


def _parse_substreams(reader: HeaderReader, folders: list[PackedFolder], limit: int) -> None:
    counts = [1] * len(folders)
    sizes: list[list[int]] = []
    digests: list[int | None] = []
    kind = reader.read_byte()
    if kind == 0x0D:
        counts = [reader.read_number() for _ in folders]
        kind = reader.read_byte()
    if limit and sum(counts) > limit:
        raise ArchiveTooLarge(f"the archive has more than {limit} entries")
    for folder, count in zip(folders, counts, strict=True):
        first = [reader.read_number() for _ in range(count - 1)] if kind == 0x09 else []
        last = folder.size - sum(first)
        if last < 0 or (count > 1 and kind != 0x09):
            raise BrokenArchive(DAMAGED)
        sizes.append([*first, last] if count else [])
    if kind == 0x09:
        kind = reader.read_byte()
    has_crc = [count == 1 and folder.crc is not None for folder, count in zip(folders, counts, strict=True)]
    if kind == 0x0A:
        digests = reader.read_digests(
            sum(count for count, is_known in zip(counts, has_crc, strict=True) if not is_known)
        )
        kind = reader.read_byte()
    if kind != END:
        raise BrokenArchive(DAMAGED)
    crcs = iter(digests)
    for folder, known, parts in zip(folders, has_crc, sizes, strict=True):
        folder.parts = [(size, folder.crc if known else next(crcs, None)) for size in parts]


def _assign_positions(folders: list[PackedFolder], position: int, packed: list[int]) -> None:
    starts = [position, *accumulate(packed, initial=position)][1:]
    index = 0
    for folder in folders:
        if index + folder.streams > len(packed):
            raise BrokenArchive(DAMAGED)
        folder.start, folder.packed = starts[index], sum(packed[index : index + folder.streams])
        index += folder.streams


def parse_files(reader: HeaderReader, folders: list[PackedFolder], limit: int) -> list[PackedFile]:
    """Yield the entries of a FilesInfo, each with its part of a folder."""
    count = reader.read_number()
    if limit and count > limit:
        raise ArchiveTooLarge(f"the archive has more than {limit} entries")
    if count > reader.remaining * 8:
        raise BrokenArchive(DAMAGED)
    properties = _FileProperties(count)
    for kind in reader.iter_properties():
        size = reader.read_count(reader.remaining)
        properties.parse(kind, HeaderReader(reader.read(size)))
    return properties.build_files(folders)


class _FileProperties:
    """Read the properties of all files, one list per kind."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.names = [""] * count
        self.empty = [False] * count
        self.empty_files: list[bool] = []
        self.anti: list[bool] = []
        self.times = [0] * count
        self.attributes = [0] * count

    def parse(self, kind: int, reader: HeaderReader) -> None:
        if kind == 0x0E:
            self.empty = reader.read_bits(self.count)
        elif kind == 0x0F:
            self.empty_files = reader.read_bits(sum(self.empty))
        elif kind == 0x10:
            self.anti = reader.read_bits(sum(self.empty))
        elif kind == 0x11:
            self.names = self._parse_names(reader)
        elif kind in (0x14, 0x15):
            defined = reader.read_optional_bits(self.count)
            self._require_internal(reader)
            width, values = (8, self.times) if kind == 0x14 else (4, self.attributes)
            for index, is_defined in enumerate(defined):
                values[index] = reader.read_fixed(width) if is_defined else 0

    def _parse_names(self, reader: HeaderReader) -> list[str]:
        self._require_internal(reader)
        names = reader.read(reader.remaining).decode("utf-16-le", errors="replace")
        if names.count("\0") != self.count:
            raise BrokenArchive(DAMAGED)
        return names.split("\0")[:-1]

    @staticmethod
    def _require_internal(reader: HeaderReader) -> None:
        if reader.read_byte():
            raise BrokenArchive(DAMAGED)

    def build_files(self, folders: list[PackedFolder]) -> list[PackedFile]:
        parts = _list_parts(folders)
        empty = 0
        files = []
        for index in range(self.count):
            size, crc, folder, start, is_dir, anti = 0, None, -1, 0, False, False
            if self.empty[index]:
                is_dir = not (empty < len(self.empty_files) and self.empty_files[empty])
                anti = empty < len(self.anti) and self.anti[empty]
                empty += 1
            elif not parts:
                raise BrokenArchive(DAMAGED)
            else:
                size, crc, folder, start = parts.pop()
            modified = max((self.times[index] - _EPOCH) / 1e7, 0.0) if self.times[index] else 0.0
            attributes = self.attributes[index]
            files.append(PackedFile(self.names[index], size, modified, attributes, is_dir, anti, crc, folder, start))
        return files


def _list_parts(folders: list[PackedFolder]) -> list[tuple[int, int | None, int, int]]:
    """Return size, checksum, folder and start of each stream, the last first."""
    parts = []
    for number, folder in enumerate(folders):
        start = 0
        for size, crc in folder.parts:
            parts.append((size, crc, number, start))
            start += size
    return parts[::-1]
