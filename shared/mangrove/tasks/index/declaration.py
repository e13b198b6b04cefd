"""The machine that indexes a storage: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.tasks.core.declarations import Machine, Step, TaskKind
from mangrove.tasks.core.specs import Cursor, Schema, Spec


@dataclass(kw_only=True)
class IndexSpec(Spec):
    """Index the storage `storage_id`: all of it, or (`is_update`) only what changed, and `paths` (inside the storage)
    with `levels` of folders below them (-1: all). `is_drop`: forget the index instead. `is_gentle`: nobody waits for
    it."""

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
    """The progress of the walk in its list of folders (`position` of `folder_count`), what it found (`count` names, in
    `files` and `folder_files` of the index's store), and what it began with: the first `root_count` folders,
    `read_count` changes that ask for folders to be read, the time `began` (seconds since the epoch). `seen`: names,
    with those that are not stored yet. `merged`: changes with higher numbers stay as they are.

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
    read_count: int = 0
    merged: str = ""
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


INDEX = Schema(IndexSpec, IndexCursor)
MACHINE = Machine(
    "index",
    INDEX,
    (
        Step("Plan", "worker:plan"),
        Step("Walk", "worker:walk", seconds="worker:STEP_SECONDS", describe="parts:describe_parts"),
        Step("Part", "part:read_part"),
        Step("Settle", "settle:clean"),
    ),
)
KINDS = (TaskKind("index", "index", 2, is_listed=False),)
