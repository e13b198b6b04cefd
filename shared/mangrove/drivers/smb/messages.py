"""Requests and answers of SMB2 that files need, as bytes: MS-SMB2 2.2 and MS-FSCC 2.4 have the layouts."""

from __future__ import annotations

import struct
from typing import NamedTuple

from smbprotocol.header import Commands

THIS = b"\xff" * 16  # the handle that the CREATE before it in a chain of requests opens
HEADER = 64  # bytes before a body, which offsets in it count
_ON_DISK_ID = b"QFid"
_EPOCH = 116_444_736_000_000_000  # 1970 in units of 100 ns since 1601
_CREATED = struct.Struct("<HBBI6qII16sII")
_ENTRY = struct.Struct("<II6qIII4xQ")  # FILE_ID_FULL_DIRECTORY_INFORMATION up to the name
_ENTRY_NAME = 80  # where the name of an entry begins

REFUSED_CONTROL = (0xC0000002, 0xC000000D)  # not implemented, invalid parameter
END_OF_FILE, NO_MORE_FILES = 0xC0000011, 0x80000006
DIRECTORY, REPARSE_POINT, READ_ONLY, NORMAL = 0x10, 0x400, 0x1, 0x80  # attributes
MOUNT_POINT, SYMLINK = 0xA0000003, 0xA000000C  # tags of reparse points


class Access:
    """What a handle is opened for."""

    READ = 0x1
    WRITE = 0x2  # for a folder: to add a file
    ATTRIBUTES = 0x80
    WRITE_ATTRIBUTES = 0x100
    DELETE = 0x10000
    SYNCHRONIZE = 0x100000


class Sharing:
    """What others may open a file for meanwhile."""

    NONE, READ, ALL = 0, 1, 7


class Disposition:
    """What CREATE does with a name that is free or taken."""

    OPEN, CREATE, OPEN_IF = 1, 2, 3


class Options:
    DIRECTORY = 0x1
    FILE = 0x40
    DELETE_ON_CLOSE = 0x1000
    REPARSE_POINT = 0x200000  # opens a link itself


class Message:
    """The body of a request. `payload`: bytes that it sends or asks for, whichever is more: they cost credits."""

    __slots__ = ("COMMAND", "body", "payload")

    def __init__(self, command: int, body: bytes, payload: int = 1) -> None:
        self.COMMAND = command  # the library's name
        self.body = body
        self.payload = max(1, payload)

    def pack(self) -> bytes:
        return self.body

    def __len__(self) -> int:
        return len(self.body)


class Status(NamedTuple):
    """What the server says about a file: times in 100 ns since 1601, 0 if unknown; `tag` of a reparse point."""

    created: int
    modified: int
    changed: int
    size: int
    attributes: int
    number: int = 0
    tag: int = 0

    @property
    def is_dir(self) -> bool:
        return bool(self.attributes & DIRECTORY)

    @property
    def is_link(self) -> bool:
        """Whether another place is meant: a walk must not enter it."""
        return self.attributes & REPARSE_POINT != 0 and self.tag in (MOUNT_POINT, SYMLINK)


def to_seconds(time: int) -> float:
    """Seconds since the epoch; 0.0 when the server does not say."""
    return (time - _EPOCH) / 10_000_000 if time > 0 else 0.0


def from_seconds(seconds: float) -> int:
    return max(1, int(seconds * 10_000_000) + _EPOCH)


def create(
    name: str, access: int, *, options: int = 0, sharing: int = Sharing.ALL, disposition: int = Disposition.OPEN
) -> Message:
    """Opens a file or folder; the answer has its number on the disk."""
    raw = name.encode("utf-16-le")
    padded = raw + bytes(-len(raw) % 8 or (0 if raw else 8))
    context = struct.pack("<IHHHHI4s4x", 0, 16, 4, 0, 0, 0, _ON_DISK_ID)
    fixed = struct.pack(
        "<HBBIQQIIIIIHHII", 57, 0, 0, 2, 0, 0, access | Access.SYNCHRONIZE, 0, sharing, disposition, options, 120,
        len(raw), 120 + len(padded), len(context),
    )  # fmt: skip
    return Message(Commands.SMB2_CREATE, fixed + padded + context)


def parse_created(body: bytes) -> tuple[bytes, Status]:
    """Handle and status of what was opened."""
    found = _CREATED.unpack_from(body)
    _, _, _, _, created, _, modified, changed, _, size, attributes, _, handle, offset, length = found
    number = _find_number(body[offset - HEADER : offset - HEADER + length]) if length else 0
    return handle, Status(created, modified, changed, size, attributes, number)


def _find_number(contexts: bytes) -> int:
    at = 0
    while True:
        following, name, name_length, _, data, length = struct.unpack_from("<IHHHHI", contexts, at)
        if contexts[at + name : at + name + name_length] == _ON_DISK_ID and length >= 8:
            return int.from_bytes(contexts[at + data : at + data + 8], "little")
        if not following:
            return 0
        at += following


def close(handle: bytes = THIS) -> Message:
    return Message(Commands.SMB2_CLOSE, struct.pack("<HHI16s", 24, 0, 0, handle))


def flush(handle: bytes) -> Message:
    return Message(Commands.SMB2_FLUSH, struct.pack("<HHI16s", 24, 0, 0, handle))


def read(handle: bytes, offset: int, length: int) -> Message:
    body = struct.pack("<HBBIQ16sIIIHHx", 49, 0x50, 0, length, offset, handle, 0, 0, 0, 0, 0)
    return Message(Commands.SMB2_READ, body, length)


def parse_read(body: bytes) -> bytes:
    _, offset, _, length = struct.unpack_from("<HBBI", body)
    return body[offset - HEADER : offset - HEADER + length]


def write(handle: bytes, offset: int, content: bytes | memoryview) -> Message:
    fixed = struct.pack("<HHIQ16sIIHHI", 49, 112, len(content), offset, handle, 0, 0, 0, 0, 0)
    return Message(Commands.SMB2_WRITE, b"".join((fixed, content)), len(content))


def parse_written(body: bytes) -> int:
    """How many bytes were written."""
    return int.from_bytes(body[4:8], "little")


def query_directory(handle: bytes, length: int, pattern: str = "*") -> Message:
    """Asks for further entries, of as many bytes at most."""
    raw = pattern.encode("utf-16-le")
    body = struct.pack("<HBBI16sHHI", 33, 38, 0, 0, handle, 96, len(raw), length) + raw
    return Message(Commands.SMB2_QUERY_DIRECTORY, body, length)


def parse_buffer(body: bytes) -> bytes:
    """What the answer to a query carries."""
    _, offset, length = struct.unpack_from("<HHI", body)
    return body[offset - HEADER : offset - HEADER + length]


def parse_entries(page: bytes, at: int, most: int) -> tuple[list[tuple[str, Status]], int]:
    """At most so many entries of a page from `at`, and where the next one begins; -1 when there is none."""
    found: list[tuple[str, Status]] = []
    while at >= 0 and len(found) < most:
        fixed = _ENTRY.unpack_from(page, at)
        following, _, created, _, modified, changed, size, _, attributes, length, tag, number = fixed
        start = at + _ENTRY_NAME
        try:
            name = page[start : start + length].decode("utf-16-le")
        except UnicodeDecodeError:
            name = "."  # no path can hold it
        if name != "." and name != "..":
            found.append((name, Status(created, modified, changed, size, attributes, number, tag)))
        at = at + following if following else -1
    return found, at


def set_info(handle: bytes, kind: int, content: bytes) -> Message:
    body = struct.pack("<HBBIHHI16s", 33, 1, kind, len(content), 96, 0, 0, handle) + content
    return Message(Commands.SMB2_SET_INFO, body, len(content))


def set_modified(handle: bytes, modified: int) -> Message:
    return set_info(handle, 4, struct.pack("<4qII", 0, 0, modified, 0, 0, 0))


def set_attributes(handle: bytes, attributes: int) -> Message:
    return set_info(handle, 4, struct.pack("<4qII", 0, 0, 0, 0, attributes, 0))


def set_deleted(handle: bytes) -> Message:
    """The name by which the handle was opened goes when it is closed."""
    return set_info(handle, 13, b"\x01")


def rename(handle: bytes, name: str, *, replace: bool) -> Message:
    return set_info(handle, 10, _pack_name(name, replace))


def link(handle: bytes, name: str) -> Message:
    """Gives a file a second name, if it is free."""
    return set_info(handle, 11, _pack_name(name, False))


def _pack_name(name: str, replace: bool) -> bytes:
    raw = name.encode("utf-16-le")
    return struct.pack("<B7xQI", replace, 0, len(raw)) + raw + bytes(max(0, 4 - len(raw)))


def query_info(handle: bytes, kind: int, info: int, length: int) -> Message:
    """`kind`: 1 for the file, 2 for its file system."""
    body = struct.pack("<HBBIHHIII16s", 41, kind, info, length, 0, 0, 0, 0, 0, handle)
    return Message(Commands.SMB2_QUERY_INFO, body, length)


def query_name(handle: bytes) -> Message:
    """Asks by which name the file is stored: the server takes others for it."""
    return query_info(handle, 1, 48, 65_535)


def parse_name(buffer: bytes) -> str:
    """The stored path, relative to the share."""
    length = int.from_bytes(buffer[:4], "little")
    return buffer[4 : 4 + length].decode("utf-16-le").strip("\\")


def query_space(handle: bytes) -> Message:
    return query_info(handle, 2, 7, 32)


def parse_space(buffer: bytes) -> tuple[int, int]:
    """Bytes in total and free for this user."""
    total, free, _, sectors, size = struct.unpack_from("<qqqII", buffer)
    return total * sectors * size, free * sectors * size


def control(handle: bytes, code: int, content: bytes, length: int) -> Message:
    body = struct.pack("<HHI16s8I", 57, 0, code, handle, 120, len(content), 0, 120, 0, length, 1, 0) + content
    return Message(Commands.SMB2_IOCTL, body, max(len(content), length))


def parse_controlled(body: bytes) -> bytes:
    offset, length = struct.unpack_from("<II", body, 32)
    return body[offset - HEADER : offset - HEADER + length]
