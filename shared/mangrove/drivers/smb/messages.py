"""Requests and answers of SMB2 for files, as bytes. The layouts are in MS-SMB2 2.2 and MS-FSCC 2.4."""

from __future__ import annotations

import struct
from typing import NamedTuple

from smbprotocol.header import Commands

PREVIOUS_HANDLE = b"\xff" * 16  # the handle of the CREATE before it in a compound request
HEADER_BYTES = 64  # before a body; the offsets in a body count from their beginning
_ON_DISK_ID = b"QFid"
_EPOCH = 116_444_736_000_000_000  # 1970 in units of 100 ns since 1601
_CREATED = struct.Struct("<HBBI6qII16sII")
_ENTRY = struct.Struct("<II6qIII4xQ")  # FILE_ID_FULL_DIRECTORY_INFORMATION up to the name
_ENTRY_NAME = 80  # offset of the name of an entry

REFUSED_CONTROL = (0xC0000002, 0xC000000D)  # not implemented, invalid parameter
END_OF_FILE = 0xC0000011
DIRECTORY, REPARSE_POINT, READ_ONLY, NORMAL = 0x10, 0x400, 0x1, 0x80  # attributes
MOUNT_POINT, SYMLINK = 0xA0000003, 0xA000000C  # tags of reparse points


class Access:
    """The purposes for which a handle is opened."""

    READ = 0x1
    WRITE = 0x2  # for a folder: to add a file
    ATTRIBUTES = 0x80
    WRITE_ATTRIBUTES = 0x100
    DELETE = 0x10000
    SYNCHRONIZE = 0x100000


class Sharing:
    """The access of other clients while a handle is open."""

    NONE, READ, ALL = 0, 1, 7


class Disposition:
    """The effect of CREATE on a name that is free or taken."""

    OPEN, CREATE = 1, 2


class CreateOptions:
    """Options of CREATE."""

    DIRECTORY = 0x1
    FILE = 0x40
    DELETE_ON_CLOSE = 0x1000
    REPARSE_POINT = 0x200000  # opens a link itself


class SmbMessage:
    """The body of a request. `payload`, the larger number of bytes sent or requested, determines the credits."""

    __slots__ = ("COMMAND", "body", "payload")

    def __init__(self, command: int, body: bytes, payload: int = 1) -> None:
        self.COMMAND = command  # its name in smbprotocol
        self.body = body
        self.payload = max(1, payload)

    def pack(self) -> bytes:
        return self.body

    def __len__(self) -> int:
        return len(self.body)


class FileStatus(NamedTuple):
    """The status of a file on the server."""

    created: int
    """Like the other times in units of 100 ns since 1601; 0 if unknown."""
    modified: int
    changed: int
    size: int
    attributes: int
    number: int = 0
    """On the disk of the server."""
    tag: int = 0
    """Of a reparse point."""

    @property
    def is_dir(self) -> bool:
        return bool(self.attributes & DIRECTORY)

    @property
    def is_link(self) -> bool:
        """True for a link to another folder or file, which a recursive change must not enter."""
        return self.attributes & REPARSE_POINT != 0 and self.tag in (MOUNT_POINT, SYMLINK)


def to_seconds(time: int) -> float:
    """Return seconds since the epoch; 0.0 if the time is unknown."""
    return (time - _EPOCH) / 10_000_000 if time > 0 else 0.0


def from_seconds(seconds: float) -> int:
    return max(1, int(seconds * 10_000_000) + _EPOCH)


def create(
    name: str, access: int, *, options: int = 0, sharing: int = Sharing.ALL, disposition: int = Disposition.OPEN
) -> SmbMessage:
    """Make a request to open a file or folder; the answer has its number on the disk."""
    raw = name.encode("utf-16-le")
    padded = raw + bytes(-len(raw) % 8 or (0 if raw else 8))
    context = struct.pack("<IHHHHI4s4x", 0, 16, 4, 0, 0, 0, _ON_DISK_ID)
    fixed = struct.pack(
        "<HBBIQQIIIIIHHII", 57, 0, 0, 2, 0, 0, access | Access.SYNCHRONIZE, 0, sharing, disposition, options, 120,
        len(raw), 120 + len(padded), len(context),
    )  # fmt: skip
    return SmbMessage(Commands.SMB2_CREATE, fixed + padded + context)


def parse_created(body: bytes) -> tuple[bytes, FileStatus]:
    """Return the handle and the status of an opened file."""
    fields = _CREATED.unpack_from(body)
    _, _, _, _, created, _, modified, changed, _, size, attributes, _, handle, offset, length = fields
    number = _find_number(body[offset - HEADER_BYTES : offset - HEADER_BYTES + length]) if length else 0
    return handle, FileStatus(created, modified, changed, size, attributes, number)


def _find_number(contexts: bytes) -> int:
    at = 0
    while True:
        following, name, name_length, _, data, length = struct.unpack_from("<IHHHHI", contexts, at)
        if contexts[at + name : at + name + name_length] == _ON_DISK_ID and length >= 8:
            return int.from_bytes(contexts[at + data : at + data + 8], "little")
        if not following:
            return 0
        at += following


def close(handle: bytes = PREVIOUS_HANDLE) -> SmbMessage:
    return SmbMessage(Commands.SMB2_CLOSE, struct.pack("<HHI16s", 24, 0, 0, handle))


def flush(handle: bytes) -> SmbMessage:
    return SmbMessage(Commands.SMB2_FLUSH, struct.pack("<HHI16s", 24, 0, 0, handle))


def read(handle: bytes, offset: int, length: int) -> SmbMessage:
    body = struct.pack("<HBBIQ16sIIIHHx", 49, 0x50, 0, length, offset, handle, 0, 0, 0, 0, 0)
    return SmbMessage(Commands.SMB2_READ, body, length)


def parse_read(body: bytes) -> bytes:
    _, offset, _, length = struct.unpack_from("<HBBI", body)
    return body[offset - HEADER_BYTES : offset - HEADER_BYTES + length]


def write(handle: bytes, offset: int, content: bytes | memoryview) -> SmbMessage:
    fixed = struct.pack("<HHIQ16sIIHHI", 49, 112, len(content), offset, handle, 0, 0, 0, 0, 0)
    return SmbMessage(Commands.SMB2_WRITE, b"".join((fixed, content)), len(content))


def parse_written(body: bytes) -> int:
    """Return the number of bytes written."""
    return int.from_bytes(body[4:8], "little")


def query_directory(handle: bytes, length: int, pattern: str = "*") -> SmbMessage:
    """Make a request for further entries, of `length` bytes at most."""
    raw = pattern.encode("utf-16-le")
    body = struct.pack("<HBBI16sHHI", 33, 38, 0, 0, handle, 96, len(raw), length) + raw
    return SmbMessage(Commands.SMB2_QUERY_DIRECTORY, body, length)


def parse_buffer(body: bytes) -> bytes:
    """Return the content of the answer to a query."""
    _, offset, length = struct.unpack_from("<HHI", body)
    return body[offset - HEADER_BYTES : offset - HEADER_BYTES + length]


def parse_entries(page: bytes, at: int, limit: int) -> tuple[list[tuple[str, FileStatus]], int]:
    """Return at most `limit` entries of a page from offset `at`, and the offset of the next entry, -1 at the end."""
    entries: list[tuple[str, FileStatus]] = []
    while at >= 0 and len(entries) < limit:
        fields = _ENTRY.unpack_from(page, at)
        following, _, created, _, modified, changed, size, _, attributes, length, tag, number = fields
        start = at + _ENTRY_NAME
        try:
            name = page[start : start + length].decode("utf-16-le")
        except UnicodeDecodeError:
            name = "."  # a path cannot hold the name
        if name != "." and name != "..":
            entries.append((name, FileStatus(created, modified, changed, size, attributes, number, tag)))
        at = at + following if following else -1
    return entries, at


def set_info(handle: bytes, kind: int, content: bytes) -> SmbMessage:
    body = struct.pack("<HBBIHHI16s", 33, 1, kind, len(content), 96, 0, 0, handle) + content
    return SmbMessage(Commands.SMB2_SET_INFO, body, len(content))


def set_modified(handle: bytes, modified: int) -> SmbMessage:
    return set_info(handle, 4, struct.pack("<4qII", 0, 0, modified, 0, 0, 0))


def set_attributes(handle: bytes, attributes: int) -> SmbMessage:
    return set_info(handle, 4, struct.pack("<4qII", 0, 0, 0, 0, attributes, 0))


def set_deleted(handle: bytes) -> SmbMessage:
    """Make a request to remove the name of a handle when the handle is closed."""
    return set_info(handle, 13, b"\x01")


def rename(handle: bytes, name: str, *, replace: bool) -> SmbMessage:
    return set_info(handle, 10, _pack_name(name, replace))


def link(handle: bytes, name: str) -> SmbMessage:
    """Make a request to give a file a second name, if it is free."""
    return set_info(handle, 11, _pack_name(name, False))


def _pack_name(name: str, replace: bool) -> bytes:
    raw = name.encode("utf-16-le")
    return struct.pack("<B7xQI", replace, 0, len(raw)) + raw + bytes(max(0, 4 - len(raw)))


def query_info(handle: bytes, kind: int, info: int, length: int) -> SmbMessage:
    """Make a request for information: `kind` 1 about the file, 2 about its file system."""
    body = struct.pack("<HBBIHHIII16s", 41, kind, info, length, 0, 0, 0, 0, 0, handle)
    return SmbMessage(Commands.SMB2_QUERY_INFO, body, length)


def query_name(handle: bytes) -> SmbMessage:
    """Make a request for the name by which the file is stored; the server also accepts other names for it."""
    return query_info(handle, 1, 48, 65_535)


def parse_name(buffer: bytes) -> str:
    """Return the stored path, relative to the share."""
    length = int.from_bytes(buffer[:4], "little")
    return buffer[4 : 4 + length].decode("utf-16-le").strip("\\")


def query_space(handle: bytes) -> SmbMessage:
    return query_info(handle, 2, 7, 32)


def parse_space(buffer: bytes) -> tuple[int, int]:
    """Return the total bytes and those free for this user."""
    total, free, _, sectors, size = struct.unpack_from("<qqqII", buffer)
    return total * sectors * size, free * sectors * size


def control(handle: bytes, code: int, content: bytes, length: int) -> SmbMessage:
    body = struct.pack("<HHI16s8I", 57, 0, code, handle, 120, len(content), 0, 120, 0, length, 1, 0) + content
    return SmbMessage(Commands.SMB2_IOCTL, body, max(len(content), length))


def parse_controlled(body: bytes) -> bytes:
    offset, length = struct.unpack_from("<II", body, 32)
    return body[offset - HEADER_BYTES : offset - HEADER_BYTES + length]
