"""The bases of specifications (what a task is to do) and cursors (how far it came).

Records hold both as JSON with a `version`. What version 0.3.0 stored is translated by `mangrove.tasks.upgrade`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from mangrove.core.codec import DecodeError, structure, unstructure
from mangrove.core.problems import UnreadableTask
from mangrove.drivers.base import Entry


@dataclass(kw_only=True)
class StoredModel:
    """Base of what records hold as a JSON object with a `version`."""

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        """Return the model of the JSON object of a record. Raise UnreadableTask if it has another version or form."""
        if stored and "version" not in stored:
            raise UnreadableTask
        try:
            return structure(cls, stored)
        except DecodeError as error:
            raise UnreadableTask from error

    def dump(self) -> dict[str, Any]:
        """Return the JSON object that `load` reads."""
        dumped: dict[str, Any] = unstructure(self)
        return dumped


class SourceVersion(NamedTuple):
    """A file as it was when the work was planned: what it must still be. `size` in bytes, None: unknown."""

    size: int | None
    modified: float
    etag: str

    @classmethod
    def of(cls, entry: Entry) -> SourceVersion:
        """The version that a storage shows."""
        return cls(entry.size, entry.modified, entry.etag)

    def matches(self, entry: Entry | None, *, by_tag: bool = False) -> bool:
        """True if it is still that file. A listing may not know the etag that `stat` knows. Where both know one, they
        may know the time more or less finely: S3 servers tell that of a single file in whole seconds.

        `by_tag`: a tag alone decides, since `write` tells the time of an object by the clock of this machine.
        """
        if entry is None or entry.is_dir or entry.size != self.size:
            return False
        if self.etag and entry.etag:
            return entry.etag == self.etag and (by_tag or int(entry.modified) == int(self.modified))
        return entry.modified == self.modified


class ManifestEntry(NamedTuple):
    """One file or folder to be copied: its path below the source ("" for the source itself), and what it was when the
    work was planned. `size` in bytes, None: unknown."""

    path: str
    size: int | None
    modified: float
    is_dir: bool
    etag: str

    @classmethod
    def of(cls, path: str, entry: Entry) -> ManifestEntry:
        """The row of what a storage lists."""
        return cls(path, entry.size, entry.modified, entry.is_dir, entry.etag)

    @property
    def version(self) -> SourceVersion:
        """The version that the file must still have."""
        return SourceVersion(self.size, self.modified, self.etag)


@dataclass(kw_only=True)
class PartialFile:
    """A file that is being stored in parts."""

    path: str
    key: str
    """The name of the attempt."""
    token: str = ""
    """The driver's own; "" before the driver has begun."""
    length: int
    """Bytes of a part."""
    receipt_count: int = 0
    """The number of parts that have a receipt, see `PartReceipts`."""
    size: int = 0
    """Bytes of a download that are stored."""
    validator: str = ""
    """The etag of the source; "" if it has none."""
    storage: str = ""
    """The way to reach the storage after it is unmounted, see `partials`; "" for staging."""
    boot: str = ""
    """The start of the machine in which it was begun, see `Platform.read_boot_id`."""
    stored: SourceVersion | None = None
    """The file that the parts became."""
    compared: int = 0
    """Bytes of `stored` that are known to be those of the source."""


@dataclass(kw_only=True)
class Spec(StoredModel):
    """Base of all specifications: what a task is to do."""

    version: Literal[2] = 2


@dataclass(kw_only=True)
class Cursor(StoredModel):
    """Base of all cursors: how far a task came."""

    version: Literal[2] = 2
    attempt: int | None = None
    """The run of the task that it belongs to; None before the first."""
    partial: PartialFile | None = None
    has_receipts: bool = False
    """True if staging may hold receipts of parts of files."""


@dataclass(kw_only=True)
class CopyCursor(Cursor):
    """Base of the cursors of machines that copy files."""

    bytes_done: int = 0
    """Bytes of the files that are complete."""


@dataclass(kw_only=True)
class WalkCursor(Cursor):
    """Base of the cursors of machines that walk through folders."""

    planned: bool = False
    folder_count: int = 0
    """Folders that are in the list."""
    folders_walked: int = 0
    next_page: str = ""
    """The page where the walk of the next folder goes on."""
    folders_left: int | None = None
    """Folders that are still to be removed; None before the removal begins."""
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    """The messages of the first failures."""


SpecT = TypeVar("SpecT", bound=Spec)
CursorT = TypeVar("CursorT", bound=Cursor)
CopyCursorT = TypeVar("CopyCursorT", bound=CopyCursor)


@dataclass(frozen=True, slots=True)
class Schema(Generic[SpecT, CursorT]):
    """The models of one state machine."""

    spec: type[SpecT]
    cursor: type[CursorT]
