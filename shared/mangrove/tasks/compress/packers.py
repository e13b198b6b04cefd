"""The formats of archives that a task makes. A packer begins at the cursor, and saves its progress in the cursor."""

from __future__ import annotations

from typing import Protocol

from mangrove.archives.tar_writer import TarWriter
from mangrove.archives.zip_writer import ZipEntry, ZipWriter
from mangrove.core.problems import BadRequest
from mangrove.tasks.compress.declaration import CompressCursor
from mangrove.tree.operations.packing import PackedEntry
from mangrove.tree.operations.zip_streams import get_name

FORMATS = (".zip", ".tar.gz")


class Packer(Protocol):
    """A writer of an archive. Its methods return the bytes to store."""

    needs_sizes: bool
    """The size of a file has to be known before it is packed."""

    def add_folder(self, packed: PackedEntry) -> bytes: ...

    def add_file(self, packed: PackedEntry, content: bytes) -> bytes: ...

    def begin_file(self, packed: PackedEntry) -> bytes: ...

    def add_block(self, block: bytes) -> bytes: ...

    def end_file(self, packed: PackedEntry) -> bytes: ...

    def abandon_file(self) -> bool:
        """Leave out the current file. Return False if that is not possible, so that its rest is filled with zeros."""
        ...

    def add_error(self, packed: PackedEntry, text: str) -> bytes: ...

    def end_part(self) -> tuple[bytes, bytes]:
        """Return the last bytes of a part, and its records for `finish`."""
        ...

    def save(self, cursor: CompressCursor) -> None:
        """Save the progress of the packer in the cursor."""
        ...

    def finish(self, directory: bytes) -> bytes:
        """Return the end of the archive. `directory`: the records of all parts, joined."""
        ...


class ZipPacker:
    """A ZIP file without compression."""

    needs_sizes = False

    def __init__(self, cursor: CompressCursor, packed: PackedEntry | None) -> None:
        """Continue with the file `packed`, if the cursor is in the middle of a file."""
        self._writer = ZipWriter(cursor.size, cursor.packed_count)
        self._header_offset = cursor.header_offset
        if packed is not None and cursor.is_begun:
            entry = ZipEntry(get_name(packed), packed.modified, packed.size, None, cursor.header_offset)
            self._writer.resume_file(entry, cursor.checksum, cursor.offset)

    def add_folder(self, packed: PackedEntry) -> bytes:
        return self._writer.add_folder(get_name(packed), packed.modified)

    def add_file(self, packed: PackedEntry, content: bytes) -> bytes:
        return self._writer.add_file(get_name(packed), packed.modified, content)

    def begin_file(self, packed: PackedEntry) -> bytes:
        self._header_offset = self._writer.offset
        return self._writer.begin_file(get_name(packed), packed.modified, packed.size)

    def add_block(self, block: bytes) -> bytes:
        return self._writer.add_block(block)

    def end_file(self, packed: PackedEntry) -> bytes:
        return self._writer.end_file()

    def abandon_file(self) -> bool:
        self._writer.abandon_file()
        return True

    def add_error(self, packed: PackedEntry, text: str) -> bytes:
        return self._writer.add_error(get_name(packed).rstrip(b"/"), packed.modified, text)

    def end_part(self) -> tuple[bytes, bytes]:
        return b"", self._writer.take_directory()

    def save(self, cursor: CompressCursor) -> None:
        cursor.packed_count = self._writer.count
        cursor.header_offset, cursor.checksum = self._header_offset, self._writer.checksum

    def finish(self, directory: bytes) -> bytes:
        self._writer.directory[:0] = directory
        return b"".join(self._writer.finish())


class TarPacker:
    """A tar archive, compressed by gzip. Each part is a separate gzip member."""

    needs_sizes = True

    def __init__(self) -> None:
        self._writer = TarWriter()

    def add_folder(self, packed: PackedEntry) -> bytes:
        return self._writer.add_folder(packed.path, packed.modified)

    def add_file(self, packed: PackedEntry, content: bytes) -> bytes:
        return self._writer.add_file(packed.path, packed.modified, content)

    def begin_file(self, packed: PackedEntry) -> bytes:
        return self._writer.begin_file(packed.path, packed.modified, packed.size or 0)

    def add_block(self, block: bytes) -> bytes:
        return self._writer.add_block(block)

    def end_file(self, packed: PackedEntry) -> bytes:
        return self._writer.end_file(packed.size or 0)

    def abandon_file(self) -> bool:
        return False

    def add_error(self, packed: PackedEntry, text: str) -> bytes:
        return self._writer.add_error(packed.path, packed.modified, text)

    def end_part(self) -> tuple[bytes, bytes]:
        return self._writer.end_member(), b""

    def save(self, cursor: CompressCursor) -> None:
        """Do nothing: a new writer can continue at any position."""

    def finish(self, directory: bytes) -> bytes:
        return self._writer.finish()


def check_archive_name(name: str) -> str:
    """Return `name`. Raise BadRequest unless it ends as one of FORMATS does."""
    if not name.lower().endswith(FORMATS) or name.lower() in FORMATS:
        raise BadRequest(f"the name of an archive ends in {' or '.join(FORMATS)}")
    return name


def make_packer(name: str, cursor: CompressCursor, packed: PackedEntry | None) -> Packer:
    """Return the packer for an archive of this name. `packed`: the entry at the position of the cursor."""
    return ZipPacker(cursor, packed) if name.lower().endswith(".zip") else TarPacker()
