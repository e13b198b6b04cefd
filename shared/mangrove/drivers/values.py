"""The values that operations of a driver take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    etag: str = ""  # the storage's own strong validator, without quotes; "" when it has none
    provider: str = ""  # the driver that the bytes really come from, when it is another one
    url: str = ""  # a public address of the bytes that needs no link call
    is_link: bool = False  # a link: a walk that changes the tree does not enter it


class EntriesPage(NamedTuple):
    """Some entries of a folder."""

    entries: Sequence[Entry]
    next_start: str  # where the next page begins; "" at the end


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
    """A file as `stat` shows it, and all its bytes, which are of that version."""

    entry: Entry
    content: bytes


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
    """The facts that are known of a body before it is read."""

    size: int | None  # bytes; None: unknown
    modified: float  # seconds since the epoch
    mime: str = "application/octet-stream"
    overwrite: bool = True
    """False: a file at the target is not replaced but refused with EntryExists (see `Driver.can_refuse_existing`)."""
    durable: bool = False  # the file survives a power cut once the call has returned
    staged: StagedFile | None = None  # holds the whole body; the driver commits it or reads the body as usual
    is_free: bool = False
    """The caller has seen that the name is free and keeps others from it where the storage does not: the driver need
    not look."""


class StagedFile(Protocol):
    """A file of a storage that has no name yet and takes bytes in any order."""

    is_committed: bool  # a `write` has made it the file that it was opened for

    async def write(self, offset: int, content: bytes) -> None:
        """Put bytes at an offset. A gap before it is filled with zeros."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes from `offset`, fewer than `size` only at the end."""
        ...

    async def truncate(self, size: int) -> None:
        """Cut to `size`, or fill up with zeros."""
        ...

    def close(self) -> None:
        """Close the file; it is deleted unless it is committed."""
        ...


class CopyRequest(NamedTuple):
    """A small file of another storage that is to be copied."""

    source: TreePath
    target: TreePath
    size: int  # that the source must still have, as its time and, if it is not "", its etag
    modified: float
    overwrite: bool  # a file at the target may be replaced
    etag: str = ""
    durable: bool = False  # the copy has to survive a power cut


class SignedRequest(NamedTuple):
    """A request that the client sends unchanged; the storage signs no headers but these."""

    method: str
    url: str
    headers: Mapping[str, str]
    lifetime: int  # seconds


class StoredPart(NamedTuple):
    """A part of an unfinished file that the storage has."""

    number: int  # from 1
    size: int  # bytes
    receipt: str  # for `Driver.finish`


class SendableFile(Protocol):
    """An open file that the kernel sends to a socket (sendfile(2)). It is closed with its last reference, too."""

    async def send_to(self, socket: int, offset: int, count: int) -> int:
        """Send a part of the file to a non-blocking socket; return the number of bytes, 0 at the end of the file.

        BlockingIOError: the socket takes no bytes now. ConnectionError: it is closed.
        """
        ...

    def close(self) -> None: ...
