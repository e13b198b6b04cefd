"""The types of this package: the source of an archive, its limits, its members, an open archive."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

BLOCK_SIZE = 1 << 20  # bytes: the largest block of a member's stream
MAX_MEMORY = 1 << 28  # bytes: archives whose dictionaries need more to be unpacked are refused
RATIO_EXEMPT = 1 << 22  # bytes that may be unpacked at any ratio: a small file is harmless
DEFAULT_ENCODING = "IBM437"  # of names in a ZIP that do not declare their own


class Source(Protocol):
    """The bytes of an archive. `read` returns `length` bytes from `offset`, fewer only at the end."""

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits of one archive; 0 means no limit. `size`: total unpacked bytes.

    `ratio`: unpacked to packed bytes, of each member and of the whole.
    """

    members: int = 100_000
    size: int = 100 << 30
    ratio: int = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """One member.

    `path` is relative and `/`-separated; `size` in bytes, None if only unpacking shows it; `modified` in seconds since
    the epoch, 0.0 if unknown. `refused` is the reason why it is never unpacked, and then no other attribute is
    reliable; otherwise `""`.
    """

    path: str
    size: int | None
    modified: float
    is_dir: bool
    refused: str = ""


MemberFilter = Callable[[int, Member], bool]
MemberStreams = AsyncGenerator[tuple[int, Member, AsyncGenerator[bytes, None]], None]


class Archive(Protocol):
    """An open archive whose password has been checked.

    `encrypted`: a password is needed for it or a part of it. `sequential`: reaching a late member means reading
    everything before it. The index of a member counts everything that `iter_members` yields, including refused members
    and folders.
    """

    comment: str
    encrypted: bool
    sequential: bool

    def iter_members(self) -> AsyncGenerator[Member, None]:
        """Yield all members in stored order. Raise ArchiveTooLarge if there are more than the limits allow."""
        ...

    def iter_contents(self, is_wanted: MemberFilter) -> MemberStreams:
        """Yield the selected files in stored order, each with its bytes in blocks of at most BLOCK_SIZE.

        `is_wanted` is called once for each file that is neither a folder nor refused. A stream ends only if size and
        checksum are right; otherwise it raises BrokenArchive, ArchiveTooLarge or WrongArchivePassword, and if the
        format allows it the iteration can continue. A stream is invalid once the next one is requested.
        """
        ...
