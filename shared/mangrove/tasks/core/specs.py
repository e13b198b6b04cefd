"""What a task is (`spec`) and how far it came (`cursor`): a model of each for every state machine.

Records hold both as JSON with a `version`. What was stored before there were versions has none, and other keys: they
are translated here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

from mangrove.core.problems import UnreadableTask
from mangrove.core.structure import Misfit, structure, unstructure
from mangrove.drivers.base import Entry
from mangrove.tasks.core.kinds import DELETE_ON_SUCCESS


@dataclass(kw_only=True)
class TaskModel:
    """`old_keys`: keys of records without a version, and what they are called now."""

    old_keys: ClassVar[Mapping[str, str]] = {}
    version: Literal[1] = 1

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        """Read the JSON object of a record; UnreadableTask when this service does not know its version or form."""
        if "version" not in stored:
            stored = {cls.old_keys.get(key, key): value for key, value in stored.items()}
        try:
            return structure(cls, stored)
        except Misfit as error:
            raise UnreadableTask from error

    def dump(self) -> dict[str, Any]:
        """The JSON object that `load` reads."""
        found: dict[str, Any] = unstructure(self)
        return found


class SourceVersion(NamedTuple):
    """A file as it was when the work was planned: what it must still be. `size` in bytes, None: unknown."""

    size: int | None
    modified: float
    etag: str

    @classmethod
    def of(cls, entry: Entry) -> SourceVersion:
        """The version that a storage shows."""
        return cls(entry.size, entry.modified, entry.etag)

    def matches(self, entry: Entry | None) -> bool:
        """Whether it is still that file. A listing may know no etag where `stat` does; and where both do, the time more
        finely: S3 servers tell that of a single file in whole seconds."""
        if entry is None or entry.is_dir or entry.size != self.size:
            return False
        if self.etag and entry.etag:
            return entry.etag == self.etag and int(entry.modified) == int(self.modified)
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
        """What the file must still be."""
        return SourceVersion(self.size, self.modified, self.etag)


@dataclass(kw_only=True)
class PartialFile:
    """A file that is being stored in parts. `key` names the attempt, `token` is of the driver ("": not begun yet).

    `length`: bytes of a part; `receipt_count`: how many parts have a receipt (see `tasks.part_receipts`; `receipts` are
    those of an older record, "" for one that is missing); `validator`: the etag of what they are read from, "" when it
    has none. `size`: bytes that are there of a download. `storage`: how to reach the storage
    when it is mounted no more (see `tasks.partials`), "" for staging. `boot`: of `Platform.read_boot_id` then.

    `stored`: what the parts became, once they did; of that, `compared` bytes are known to be those of the source.
    """

    path: str
    key: str
    token: str = ""
    length: int
    receipts: list[str] = field(default_factory=list)
    receipt_count: int = 0
    size: int = 0
    validator: str = ""
    storage: str = ""
    boot: str = ""
    stored: SourceVersion | None = None
    compared: int = 0


@dataclass(kw_only=True)
class Spec(TaskModel):
    """Base of all specs."""


@dataclass(kw_only=True)
class Cursor(TaskModel):
    """Base of all cursors. `attempt`: the run of the task that it belongs to; None before the first. `has_receipts`: of
    the parts of files there may be receipts in staging."""

    attempt: int | None = None
    partial: PartialFile | None = None
    has_receipts: bool = False


@dataclass(kw_only=True)
class CopyCursor(Cursor):
    """Base of the cursors of machines that copy files; `bytes_done` counts whole files."""

    bytes_done: int = 0


SpecT = TypeVar("SpecT", bound=Spec)
CursorT = TypeVar("CursorT", bound=Cursor)
CopyCursorT = TypeVar("CopyCursorT", bound=CopyCursor)


@dataclass(kw_only=True)
class TransferSpec(Spec):
    """Copy `source` (a path of the tree, with the `password` of its folder) or what is `staged` (a path in staging)
    into the folder `target_dir` of the tree as `name`; "" for the folder itself.

    `keep_existing`: files that stand there stay and are no failure. `delete_policy`: when what is staged goes.

    `names`: how many entries below `source` are meant, which a list in staging names; 0 for `source` itself. They get
    the same paths below the target, or those that the list says (`has_targets`). `is_rename`: it is for a rename, which
    has a right of its own.

    `removes`: nothing is copied; the entries of the list are removed, or the folders below `source` that hold no file.
    `is_flat`: all files below `source` are moved, each by its own name, and the folders stay.
    """

    old_keys: ClassVar[Mapping[str, str]] = {
        "target": "target_dir",
        "leave": "keep_existing",
        "policy": "delete_policy",
    }
    source: str = ""
    password: str = ""
    staged: str = ""
    target_dir: str
    name: str
    overwrite: bool
    keep_existing: bool = False
    delete_policy: str = DELETE_ON_SUCCESS
    names: int = 0
    has_targets: bool = False
    is_rename: bool = False
    removes: Literal["", "entries", "empty_folders"] = ""
    is_flat: bool = False


@dataclass(kw_only=True)
class TransferCursor(CopyCursor):
    """Counts of the manifests (`entry_count`, `folder_count`, `failed_count` for the next round), and how far the work
    came in them: `folders_walked` by Plan, which goes on in the next one at `next_page`, `position` by Move,
    `folders_left` to be removed after a move. `listed`: how far Plan came in the list of names.

    `round` counts the retries of what failed; `total` in bytes, as far as sizes are known. `only_entry`: the source,
    when it is a file; there are no manifests then, which could be lost after a move has removed it.

    `handed`: rows from `position` on that other workers copy meanwhile (`tasks.transfer_parts`), of which nothing came
    for the `tries`th time. `part`: the chunk whose worker's cursor this is; None for that of the task.
    """

    old_keys: ClassVar[Mapping[str, str]] = {
        "turn": "attempt", "file": "partial", "bytes": "bytes_done", "at": "position", "entries": "entry_count",
        "folders": "folder_count", "failed": "failed_count", "walked": "folders_walked", "untidied": "folders_left",
    }  # fmt: skip
    planned: bool = False
    listed: int = 0
    only_entry: ManifestEntry | None = None
    entry_count: int = 0
    folder_count: int = 0
    folders_walked: int = 0
    next_page: str = ""
    total: int = 0
    position: int = 0
    round: int = 0
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    folders_left: int | None = None
    handed: int = 0
    tries: int = 0
    part: int | None = None


@dataclass(kw_only=True)
class DownloadSpec(Spec):
    """Fetch `url` with `tool` into the folder `target_dir` of the tree."""

    old_keys: ClassVar[Mapping[str, str]] = {"target": "target_dir", "policy": "delete_policy"}
    url: str
    tool: str
    target_dir: str
    delete_policy: str


@dataclass(kw_only=True)
class DownloadCursor(Cursor):
    """`started` in seconds since the epoch. `token`: the tool's, None before it has the address; `missed`: calls in a
    row that it did not answer; `shared`: it still gives to others what it has downloaded.

    `complete`: SimpleHttp has stored every byte.
    """

    old_keys: ClassVar[Mapping[str, str]] = {
        "turn": "attempt",
        "file": "partial",
        "begun": "started",
        "whole": "complete",
    }
    started: float = 0.0
    token: str | None = None
    missed: int = 0
    shared: bool = False
    complete: bool = False


@dataclass(kw_only=True)
class DecompressSpec(Spec):
    """Extract `inner` (a path in the archive, `/` for all) of the archive `source` into the folder `target_dir` as
    `name`; "" for the folder itself. `cache_full`: bring the archive into staging first."""

    old_keys: ClassVar[Mapping[str, str]] = {"target": "target_dir", "archive_pass": "archive_password"}
    source: str
    password: str
    archive_password: str
    inner: str
    cache_full: bool
    target_dir: str
    name: str
    overwrite: bool


@dataclass(kw_only=True)
class DecompressCursor(CopyCursor):
    """`position`: the next member; `archive`: what the archive was when the work began. `bytes_done` and `files` count
    what is in staging, `refused` the members that are not; `boot`: when they were brought (`Platform.read_boot_id`)."""

    old_keys: ClassVar[Mapping[str, str]] = {
        "turn": "attempt", "file": "partial", "bytes": "bytes_done", "at": "position", "folders": "folders_made",
        "handed": "chained",
    }  # fmt: skip
    archive: SourceVersion | None = None
    boot: str = ""
    cached: bool = False
    folders_made: bool = False
    position: int = 0
    files: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)
    chained: bool = False


@dataclass(kw_only=True)
class IndexSpec(Spec):
    """Index the storage `storage_id`: all of it, or (`is_update`) only the folders that are marked, and `paths` (inside
    the storage) with `levels` of folders below them (-1: all). `is_drop`: forget the index instead. `is_gentle`: nobody
    waits for it."""

    storage_id: int
    is_update: bool = False
    paths: list[str] = field(default_factory=list)
    levels: int = -1
    is_drop: bool = False
    is_gentle: bool = False


@dataclass(kw_only=True)
class IndexPart:
    """Some of the folders to be read, which another worker reads: `count` from `position` on."""

    number: int
    position: int
    count: int


@dataclass(kw_only=True)
class IndexCursor(Cursor):
    """How far the walk came in its list of folders (`position` of `folder_count`), what it found (`count` names, in
    `files` and `folder_files` of the index's store), and what it began with: the first `root_count` folders,
    `mark_count` marks, the time `began` (seconds since the epoch). `seen`: names, with those that are not stored yet.

    `is_wanted`: the storage was to have an index when the run began. `is_whole`: all of the storage is read;
    `failed_count` folders could not be, the first of which `errors` name. `walked`: there is nothing left to read.
    `indexed`: names in the index as the last run left it, None for no index; `finished`: when that was, ISO 8601.

    `parts`: what other workers read meanwhile, together all from `position` on; this is handed out for the `round`th
    time, and what got lost of it for the `tries`th. A folder's id is its position and `shift`; `shifts` are to be added
    to the ids in each of the files. `lists`: what the names of a part's own lists begin with.
    """

    generation: str = ""
    began: float = 0.0
    is_wanted: bool = True
    is_whole: bool = True
    root_count: int = 0
    mark_count: int = 0
    folder_count: int = 0
    position: int = 0
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    count: int = 0
    seen: int = 0
    files: list[str] = field(default_factory=list)
    folder_files: list[str] = field(default_factory=list)
    shifts: list[int] = field(default_factory=list)
    shift: int = 0
    parts: list[IndexPart] = field(default_factory=list)
    round: int = 0
    tries: int = 0
    lists: str = ""
    walked: bool = False
    indexed: int | None = None
    finished: str = ""


@dataclass(frozen=True, slots=True)
class Schema(Generic[SpecT, CursorT]):
    """The models of one state machine."""

    spec: type[SpecT]
    cursor: type[CursorT]


TRANSFER = Schema(TransferSpec, TransferCursor)
DOWNLOAD = Schema(DownloadSpec, DownloadCursor)
DECOMPRESS = Schema(DecompressSpec, DecompressCursor)
INDEX = Schema(IndexSpec, IndexCursor)
