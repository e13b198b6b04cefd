"""The values that operations of a driver take and return, and functions for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem

if TYPE_CHECKING:
    from mangrove.drivers.base import Driver


class Entry(NamedTuple):
    """A file or folder of a listing. Times are seconds since the epoch (0.0: unknown)."""

    name: str
    size: int | None  # bytes; None: a file of unknown size. A folder has 0, or the sum of the files in it
    modified: float
    is_dir: bool
    created: float = 0.0  # 0.0: same as modified
    hashes: Mapping[str, str] | None = None  # md5, sha1, sha256 in lower-case hex
    thumb: bool = False  # the driver can make a thumbnail of it
    etag: str = ""  # the storage's own strong validator, without quotes; "" if it has none
    provider: str = ""  # the driver that really has the bytes, if it is another one
    url: str = ""  # a public address of the bytes that needs no link call
    is_link: bool = False  # a link: a walk that changes the tree does not enter it


class EntriesPage(NamedTuple):
    """Some entries of a folder."""

    entries: Sequence[Entry]
    next_start: str  # the start of the next page; "" at the end


class PageSource(NamedTuple):
    """A folder of a storage that lists it in pages."""

    driver: Driver
    path: TreePath


class FolderBatch(NamedTuple):
    """Some entries of one of several folders."""

    number: int  # of the folder in the request
    entries: Sequence[Entry]
    problem: StorageProblem | None = None  # the reason why the listing of this folder ends here


class WholeFile(NamedTuple):
    """All bytes of a file."""

    content: bytes
    describe: Callable[[], Entry]
    """Returns the file as `stat` shows it, of the version that the bytes are of. Not every caller needs it."""


@dataclass(frozen=True, slots=True)
class Link:
    """An address from which a browser fetches the bytes directly."""

    url: str
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lifetime: float | None = None  # seconds; None: unlimited


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes of the storage."""

    total: int
    free: int

    @property
    def used(self) -> int:
        return self.total - self.free


@dataclass(frozen=True, slots=True)
class Upload:
    """The facts of a body that are known before it is read."""

    size: int | None  # bytes; None: unknown
    modified: float  # seconds since the epoch
    mime: str = "application/octet-stream"
    overwrite: bool = True
    """False: an existing file at the target is refused with EntryExists instead of being replaced (see
    `Driver.can_refuse_existing`).
    """
    durable: bool = False  # the file survives a power cut once the call has returned
    staged: StagedFile | None = None  # has the whole body; the driver commits it or reads the body as usual
    is_free: bool = False
    """The caller has checked that the name is free and locks it if the storage does not: the driver need not check."""


class NewFile(NamedTuple):
    """A file to store whose bytes are in memory."""

    path: TreePath
    content: bytes
    upload: Upload


class StagedFile(Protocol):
    """A file of a storage that has no name yet and accepts bytes in any order."""

    is_committed: bool  # a `write` has made it the file for which it was opened

    async def write(self, offset: int, content: bytes) -> None:
        """Write bytes at an offset. A gap before it is filled with zeros."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes from `offset`. Fewer than `size` are returned only at the end."""
        ...

    async def truncate(self, size: int) -> None:
        """Truncate the file to `size`, or extend it with zeros."""
        ...

    def close(self) -> None:
        """Close the file; it is deleted unless it is committed."""
        ...


class CopyRequest(NamedTuple):
    """A small file of another storage that is to be copied."""

    source: TreePath
    target: TreePath
    size: int  # required of the source, by its time and, if it is not "", its etag
    modified: float
    overwrite: bool  # a file at the target may be replaced
    etag: str = ""
    durable: bool = False  # the copy has to survive a power cut


class SignedRequest(NamedTuple):
    """A request that the client sends unchanged; the storage signs only these headers."""

    method: str
    url: str
    headers: Mapping[str, str]
    lifetime: int  # seconds


class StoredPart(NamedTuple):
    """A part of an unfinished file that the storage has."""

    number: int  # from 1
    size: int  # bytes
    receipt: str  # for `Driver.finish`


class StoredVersion(NamedTuple):
    """A version of a file."""

    id: str
    size: int | None  # bytes
    modified: float  # seconds since the epoch
    is_latest: bool  # the present one
    is_removed: bool  # the file was removed here, and has no content


class SendableFile(Protocol):
    """An open file that the kernel sends to a socket (sendfile(2)). It is closed with its last reference, too."""

    async def send_to(self, socket: int, offset: int, count: int) -> int:
        """Send a part of the file to a non-blocking socket. Return the number of bytes, 0 at the end of the file.

        Raise BlockingIOError if the socket accepts no bytes now, ConnectionError if it is closed.
        """
        ...

    def close(self) -> None: ...


def make_parts_key() -> str:
    """Return a unique name for one attempt to store a file in parts: seconds since the epoch, and a random part."""
    return f"{int(time.time())}-{token_hex(12)}"


def get_sort_key(entry: Entry) -> str:
    """Return the text by which `Driver.list_range` sorts an entry."""
    return f"{entry.name}/" if entry.is_dir else entry.name


async def list_all(driver: Driver, path: TreePath) -> list[Entry]:
    """Return all entries of a folder."""
    entries: list[Entry] = []
    async for batch in driver.list(path):
        entries.extend(batch)
    return entries
