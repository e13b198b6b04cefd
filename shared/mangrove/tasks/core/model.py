"""The model of a task: its states, its kind and state machine, its specification and its cursor.

A package of `mangrove.tasks` declares its state machine and its kinds of tasks as a `Machine` and several `TaskKind`.
Worker entry points, the queue, the dispatcher and the API read the declarations through `registry`.

A specification is the work of a task, a cursor its progress. Records hold both as JSON with a `version`. Those of
version 0.3.0 are translated by `mangrove.tasks.upgrade`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from mangrove.core.codec import DecodeError, structure, unstructure
from mangrove.core.paths import TreePath
from mangrove.core.problems import UnreadableTask
from mangrove.drivers.base import Entry
from mangrove.identity.rights import Right


class State(IntEnum):
    """The state of a task as clients read it. Its text is its name in lower case."""

    PENDING = 0
    RUNNING = 1
    SUCCEEDED = 2
    CANCELING = 3
    CANCELED = 4
    ERRORED = 5
    FAILING = 6
    FAILED = 7
    WAITING_RETRY = 8
    BEFORE_RETRY = 9


DELETE_ON_SUCCESS = "delete_on_upload_succeed"
DELETE_NEVER = "delete_never"
DELETE_POLICIES: dict[str, tuple[State, ...]] = {
    DELETE_ON_SUCCESS: (State.SUCCEEDED,),
    "delete_on_upload_failed": (State.FAILED,),
    DELETE_NEVER: (),
    "delete_always": (State.SUCCEEDED, State.FAILED),
    "upload_download_stream": (State.SUCCEEDED, State.FAILED),  # a client that requests it expects no file in staging
}
"""The final states of a transfer in which its bytes in staging are removed."""


@dataclass(kw_only=True)
class StoredModel:
    """Base of JSON objects with a `version` in records."""

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        """Return the model of the JSON object in a record. Raise UnreadableTask if it has another version or form."""
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
    """The version of a file that a task reads. The file must still have it then."""

    size: int | None
    """Bytes; None if unknown."""
    modified: float
    etag: str

    @classmethod
    def of(cls, entry: Entry) -> SourceVersion:
        """Return the version that a storage shows."""
        return cls(entry.size, entry.modified, entry.etag)

    def matches(self, entry: Entry | None, *, by_tag: bool = False) -> bool:
        """True if the entry has this version.

        A listing may lack the etag that `stat` returns. If both have one, their times may differ in precision: S3
        servers return the time of a single file in whole seconds. `by_tag`: equal etags suffice, since `write` returns
        a time of this computer's clock.
        """
        if entry is None or entry.is_dir or entry.size != self.size:
            return False
        if self.etag and entry.etag:
            return entry.etag == self.etag and (by_tag or int(entry.modified) == int(self.modified))
        return entry.modified == self.modified


class ManifestEntry(NamedTuple):
    """A file or folder below the source of a task, as it was when the task was requested or planned."""

    path: str
    """The path below the source; "" for the source itself."""
    size: int | None = None
    """Bytes; None if unknown."""
    modified: float = 0.0
    is_dir: bool = False
    etag: str = ""
    target: str = ""
    """The path below the target; "" for the same path."""

    @classmethod
    def of(cls, path: str, entry: Entry, target: str = "") -> ManifestEntry:
        """Return the row of an entry in a listing."""
        return cls(path, entry.size, entry.modified, entry.is_dir, entry.etag, "" if target == path else target)

    @property
    def version(self) -> SourceVersion:
        """The version that the file must have when it is read."""
        return SourceVersion(self.size, self.modified, self.etag)

    def to_entry(self) -> Entry:
        """Return the entry as in a listing, with the path as the name."""
        return Entry(self.path, self.size, self.modified, self.is_dir, etag=self.etag)


@dataclass(kw_only=True)
class PartialFile:
    """A file that is being stored in parts."""

    path: str
    key: str
    """The name of the attempt."""
    token: str = ""
    """The driver's own token; "" before the driver has started it."""
    length: int
    """Bytes of a part."""
    receipt_count: int = 0
    """The number of parts that have a receipt, see `PartReceipts`."""
    size: int = 0
    """Bytes of a download that are stored."""
    validator: str = ""
    """The etag of the source; "" if it has none."""
    storage: str = ""
    """The options to reach the storage after it is unmounted, see `partials`; "" for staging."""
    boot: str = ""
    """The boot of the computer during which it was started, see `Platform.read_boot_id`."""
    stored: SourceVersion | None = None
    """The file that was assembled from the parts."""
    compared: int = 0
    """Bytes of `stored` that were verified against the source."""


@dataclass(kw_only=True)
class ListProgress:
    """The progress of a task in the list of its request. The first round has all rows, others those that failed."""

    round: int = 0
    row_count: int = 0
    """Rows of this round."""
    position: int = 0
    """Rows of this round that are done or failed."""
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    """The messages of the first failures."""


@dataclass(kw_only=True)
class Spec(StoredModel):
    """Base of all specifications."""

    version: Literal[2] = 2


@dataclass(kw_only=True)
class Cursor(StoredModel):
    """Base of all cursors."""

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
    """Folders in the list."""
    folders_walked: int = 0
    next_page: str = ""
    """The page from which the walk of the next folder continues."""
    folders_left: int | None = None
    """Folders that remain to be removed; None before the removal starts."""
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    """The messages of the first failures."""


SpecT = TypeVar("SpecT", bound=Spec)
CursorT = TypeVar("CursorT", bound=Cursor)
CopyCursorT = TypeVar("CopyCursorT", bound=CopyCursor)


@dataclass(frozen=True, slots=True)
class Schema(Generic[SpecT, CursorT]):
    """The models of a state machine."""

    spec: type[SpecT]
    cursor: type[CursorT]


@dataclass(frozen=True, slots=True)
class Step:
    """A state of a machine whose work a worker function does."""

    state: str
    """The name of the state, and of the worker's file in lower case."""
    function: str
    """`module:name` inside the package: `async (run) -> bool`, `sharing.PartWork` for the state Part, or
    `async (run, state)` for Settle."""
    seconds: str = ""
    """`module:name` of a constant: the time of a step in the standalone service, if it is not STEP_SECONDS."""
    describe: str = ""
    """`module:name` of a function that returns the machine's input besides `more`."""
    attempts: int = 4
    """Retries after the storage or the function did not answer."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A state machine: its models and its steps."""

    name: str
    """The name of the package, of the definition in `state_machines/` and of the folder in `functions/workers/`."""
    schema: Schema[Any, Any]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of tasks as users see it."""

    name: str
    machine: str
    """The machine that does the work, unless the specification names another one."""
    workers: str | int
    """The setting with the number of concurrent tasks, or that number in the standalone service."""
    right: Right = Right.READ
    """The right that its owner needs at each step."""
    title: str = ""
    """The name that users see; "" if it is not listed."""
    title_zh: str = ""
    """The title in Chinese."""
    is_listed: bool = True
    """True if users see its tasks."""
    is_staged: bool = False
    """True if it transfers bytes that an upload or another task has stored in staging."""


def format_upload_name(file: str, mount: TreePath, folder: TreePath) -> str:
    """Return the name of an upload into `folder`, a path inside the storage."""
    return f"upload {file} to [{mount}]({folder})"


def format_download_name(url: str, folder: TreePath) -> str:
    """Return the name of a download into `folder`, a path of the tree."""
    return f"download {url} to ({folder})"


def format_staged_name(path: TreePath, mount: TreePath, folder: TreePath) -> str:
    """Return the name of the transfer of a download from `path` in staging to `folder`, a path inside the storage."""
    return f"transfer []({path}) to [{mount}]({folder})"


def format_decompress_name(
    mount: TreePath, path: str, inner: TreePath, to_mount: TreePath, folder: TreePath, password: str
) -> str:
    """Return the name of an extraction. Paths are inside the storages, `inner` is inside the archive."""
    return (
        f"decompress [{mount}]({path})[{inner}] to [{to_mount}]({folder}) with password <{'***' if password else ''}>"
    )


def format_staged_archive_name(mount: TreePath, path: str, name: str) -> str:
    """Return the name of the making of an archive for a link; `path` is inside the storage."""
    return f"compress [{mount}]({path}) to ({name})"


def format_index_name(mount: str) -> str:
    """Return the name of an index run of a storage."""
    return f"index [{mount}]"


def format_transfer_name(verb: str, mount: TreePath, path: str, to_mount: TreePath, to_folder: TreePath) -> str:
    """Return the name of a copy or move; `verb` is copy, merge or move. Paths are inside the storages."""
    return f"{verb} [{mount}]({path}) to [{to_mount}]({to_folder})"


def format_removal_name(verb: str, mount: TreePath, path: str) -> str:
    """Return the name of a removal; `verb` is that of the interface, the path is inside the storage."""
    return f"{verb} [{mount}]({path})"


def format_many(first: TreePath, count: int) -> str:
    """Return the placeholder for the path in the name of a task over `count` entries of a folder."""
    return str(first) if count == 1 else f"{first} and {count - 1} more"


def format_now() -> str:
    """Return the present time in the format of task records."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
