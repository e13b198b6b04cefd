"""The model of a task: its states, its kind and state machine, its specification and its cursor.

A package of `mangrove.tasks` declares its state machine and its kinds of tasks as a `Machine` and some `TaskKind`.
Worker entry points, the queue, the dispatcher and the interface read the declarations through `registry`.

A specification says what a task is to do, a cursor how far it came. Records hold both as JSON with a `version`. What
version 0.3.0 stored is translated by `mangrove.tasks.upgrade`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    "upload_download_stream": (State.SUCCEEDED, State.FAILED),  # a client that asks for it expects no file in staging
}
"""The states of a transfer in which its bytes in staging are removed."""


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
    """The version of a file that a task works on. The file must still have it when the task reads it."""

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

        A listing may not know the etag that `stat` knows. Where both know one, their times may differ in precision: S3
        servers tell the time of a single file in whole seconds.

        `by_tag`: equal tags suffice, since `write` returns a time of the clock of this computer.
        """
        if entry is None or entry.is_dir or entry.size != self.size:
            return False
        if self.etag and entry.etag:
            return entry.etag == self.etag and (by_tag or int(entry.modified) == int(self.modified))
        return entry.modified == self.modified


class ManifestEntry(NamedTuple):
    """A file or folder below the source of a task, as it was when the work was requested or planned."""

    path: str
    """The path below the source; "" for the source itself."""
    size: int | None
    """Bytes; None if unknown."""
    modified: float
    is_dir: bool
    etag: str
    target: str = ""
    """The path below the target; "" for the same path."""

    @classmethod
    def of(cls, path: str, entry: Entry, target: str = "") -> ManifestEntry:
        """Return the row of what a storage lists."""
        return cls(path, entry.size, entry.modified, entry.is_dir, entry.etag, "" if target == path else target)

    @property
    def version(self) -> SourceVersion:
        """The version that the file must still have."""
        return SourceVersion(self.size, self.modified, self.etag)

    def to_entry(self) -> Entry:
        """Return what a storage would list, with the path as the name."""
        return Entry(self.path, self.size, self.modified, self.is_dir, etag=self.etag)


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
    """The start of the computer in which it was begun, see `Platform.read_boot_id`."""
    stored: SourceVersion | None = None
    """The file that the parts became."""
    compared: int = 0
    """Bytes of `stored` that are known to be those of the source."""


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
    """The models of a state machine."""

    spec: type[SpecT]
    cursor: type[CursorT]


@dataclass(frozen=True, slots=True)
class Step:
    """A state of a machine that a worker function does the work of."""

    state: str
    """The name of the state, and of the worker's file in lower case."""
    function: str
    """`module:name` inside the package: `async (run) -> bool`, `sharing.PartWork` for the state Part, or
    `async (run, state)` for Settle."""
    seconds: str = ""
    """`module:name` of a constant: the time of a step on a standalone service, if it is not STEP_SECONDS."""
    describe: str = ""
    """`module:name` of a function: what the machine is told besides `more`."""
    attempts: int = 4
    """Retries after the storage or the function did not answer."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A state machine: its models and the steps that workers do."""

    name: str
    """The name of the package, of the definition in `state_machines/` and of the folder in `functions/workers/`."""
    schema: Schema[Any, Any]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of tasks as users request it and see it."""

    name: str
    machine: str
    """The machine that does the work, unless the specification names another one."""
    workers: str | int
    """The setting with the number of tasks that run at a time, or that number on a standalone service."""
    right: Right = Right.READ
    """The right that its owner needs at each step."""
    is_listed: bool = True
    """True if users see its tasks."""
    is_staged: bool = False
    """True if it carries bytes that an upload or another task has put into staging."""


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
    mount: TreePath, path: TreePath, inner: TreePath, to_mount: TreePath, folder: TreePath, password: str
) -> str:
    """Return the name of an extraction. Paths are inside the storages, `inner` is inside the archive."""
    return (
        f"decompress [{mount}]({path})[{inner}] to [{to_mount}]({folder}) with password <{'***' if password else ''}>"
    )


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
    """Return the text that stands for the path in the name of a task over `count` entries of a folder."""
    return str(first) if count == 1 else f"{first} and {count - 1} more"
