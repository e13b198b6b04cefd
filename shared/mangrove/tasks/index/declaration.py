"""The machine that indexes a storage: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.tasks.core.model import Cursor, Machine, Schema, Spec, Step, TaskKind


@dataclass(kw_only=True)
class IndexSpec(Spec):
    """Index a storage."""

    storage_id: int
    is_update: bool = False
    """Read only changed folders and `paths`; otherwise the whole storage."""
    paths: list[str] = field(default_factory=list)
    """Paths inside the storage."""
    levels: int = -1
    """The levels of folders below `paths` that are read, too; -1 for all."""
    is_drop: bool = False
    """Remove the index instead."""
    is_gentle: bool = False
    """No user waits for it, so it leaves half of the time to other work."""


@dataclass(kw_only=True)
class IndexPart:
    """Folders of the list that another worker reads."""

    number: int
    position: int
    """The first of them."""
    count: int


@dataclass(kw_only=True)
class IndexCursor(Cursor):
    """The progress of the walk in its list of folders, and the state at the start of the run."""

    generation: str = ""
    """A random name of the run."""
    began: float = 0.0
    """In seconds since the epoch."""
    is_wanted: bool = True
    """The storage was indexed when the run started."""
    is_whole: bool = True
    """All of the storage is read."""
    root_count: int = 0
    """Folders of the list with which the walk started."""
    read_count: int = 0
    """Changes that require folders to be read."""
    merged: str = ""
    """Changes with higher numbers are not merged by this run."""
    folder_count: int = 0
    """Folders in the list."""
    position: int = 0
    """Folders of the list that were read."""
    failed_count: int = 0
    """Folders that could not be read."""
    errors: list[str] = field(default_factory=list)
    """The messages of the first of them."""
    count: int = 0
    """Names in `files`."""
    seen: int = 0
    """Names that were read, including those that are not stored yet."""
    files: list[str] = field(default_factory=list)
    """Files of names in the index's store."""
    folder_files: list[str] = field(default_factory=list)
    """Files of folders in the index's store."""
    shifts: list[int] = field(default_factory=list)
    """The offsets of the ids of folders, one for each of the files."""
    shift: int = 0
    """The id of a folder minus its position in the list."""
    parts: list[IndexPart] = field(default_factory=list)
    """The shares of other workers: together, all folders from `position` on."""
    round: int = 0
    """The number of rounds in which folders were distributed."""
    tries: int = 0
    """The number of times that parts of this round were lost."""
    lists: str = ""
    """The prefix of the names of a part's own lists."""
    walked: bool = False
    """All folders are read."""
    indexed: int | None = None
    """Names in the index as the last run left it; None for no index."""
    finished: str = ""
    """When that was, ISO 8601."""


INDEX = Schema(IndexSpec, IndexCursor)
MACHINE = Machine(
    "index",
    INDEX,
    (
        Step("Plan", "worker:plan"),
        Step("Walk", "worker:walk", seconds="worker:STEP_SECONDS", describe="worker:describe_parts"),
        Step("Part", "worker:read_part"),
        Step("Settle", "settle:clean"),
    ),
)
KINDS = (TaskKind("index", "index", 2, is_listed=False),)
