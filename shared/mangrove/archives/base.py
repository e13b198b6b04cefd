"""What an archive is to those who read it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

BLOCK = 1 << 20  # bytes: the most that a member's stream yields at once
MEMORY = 1 << 28  # bytes: archives whose dictionaries need more to be unpacked are refused
GRACE = 1 << 22  # bytes that may be unpacked at any ratio: a small file harms nobody
GUESSED = "IBM437"  # what names of a zip are taken for when nothing says otherwise


class Source(Protocol):
    """The bytes of an archive. `read` answers `length` bytes from `offset`, fewer only at the end."""

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one archive may hold; 0 is no bound.

    `size`: bytes in all, unpacked. `ratio`: unpacked to packed bytes, of each entry and of the whole.
    """

    members: int = 100_000
    size: int = 100 << 30
    ratio: int = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """One entry. `path` is relative and `/`-separated; `size` in bytes, -1 when only unpacking tells; `modified` in
    seconds since the epoch, 0.0 when not known. `refused` says why it is never unpacked, and then nothing else of it
    can be relied on."""

    path: str
    size: int
    modified: float
    is_dir: bool
    refused: str = ""


Wanted = Callable[[int, Member], bool]
Contents = AsyncGenerator[tuple[int, Member, AsyncGenerator[bytes, None]], None]


class Archive(Protocol):
    """An open archive, its password already found right.

    `encrypted`: a password is needed for it or a part of it. `sequential`: to reach a late member means to read all
    before it. The index of a member counts all that `members` yields, refused ones and folders too.
    """

    comment: str
    encrypted: bool
    sequential: bool

    def members(self) -> AsyncGenerator[Member, None]:
        """All entries in stored order; ArchiveTooLarge when there are more than the limits allow."""
        ...

    def contents(self, wanted: Wanted) -> Contents:
        """The wanted files in stored order, each with its bytes in blocks of at most BLOCK.

        `wanted` is asked once for each file that is neither a folder nor refused. A stream ends only when size and
        checksum are right; else it raises BrokenArchive, ArchiveTooLarge or WrongArchivePassword, and where the
        format allows the walk can go on. A stream is over when the next one is asked for.
        """
        ...
