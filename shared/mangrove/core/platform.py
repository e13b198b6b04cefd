"""The platform: everything that differs between the service in the cloud and the service on one computer.

`mangrove.core.config` determines which of the two packages implements it for this process. No other module depends on
where it runs; each reads a value of the platform or calls a method of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mangrove.core.config import config


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of a process of the service."""

    name: str
    bytes: int
    """Its proportional share of the physical memory (PSS)."""


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """The figures of one machine."""

    connections: int
    """Connections of HTTP clients."""
    event_streams: int
    sessions: int
    """Sessions that were used in the last ten minutes."""
    total_bytes: int
    """Of the disk with the data directory."""
    free_bytes: int
    processes: list[ProcessMemory]
    requests: int
    """Since the start of the service."""
    failed_requests: int
    """Requests among them with a code of 500 and above."""
    warnings: int
    """Lines in the log since the start of the service."""
    errors: int


class TaskDispatcher(Protocol):
    """A dispatcher of tasks to the workers. Each `task` is the record of a task."""

    @property
    def is_remote(self) -> bool:
        """True if another process of this computer runs the tasks. Only that process knows which tasks it holds."""
        ...

    def start(self, task: Any, suffix: str = "") -> None:
        """Start the run `task.attempt`. Starting it twice is one run, unless a `suffix` distinguishes them.

        Raise Problem if that is not possible; the sweep repeats a start that was refused because there were too many.
        """
        ...

    def expedite(self, task: Any) -> None:
        """End a cancelled task now, even if it waits for a worker."""
        ...

    def forget(self, task: Any) -> None:
        """Record that a task was deleted before its first run."""
        ...


class OwnStorage(NamedTuple):
    """The driver and the options of an internal storage of the service."""

    driver: str
    options: dict[str, Any]


class Platform(Protocol):
    """The platform of this process, for every package."""

    dispatcher: TaskDispatcher
    process_count: int
    """Processes of the service on this computer that answer requests."""

    reports_changes: bool
    """Every process immediately learns of changes by another one; otherwise a process has to poll."""
    single_task_process: bool
    """One process runs all tasks: leases, concurrency and a cursor between two steps are in its memory."""
    ends_late_steps: bool
    """A step that takes too long is killed; otherwise it may finish started work."""
    progress_interval_seconds: float
    """Between two writes of the progress of a file's parts."""
    max_poll_interval_seconds: int
    """Between two polls of an external download tool."""
    max_answer_bytes: int | None
    """Of an answer, which is collected first; None: answers have any size and are streamed."""
    max_file_bytes: int | None
    """Of a file that passes through the service in one request; None: any size."""
    max_listed_entries: int | None
    """Of a folder that is read as a whole; None: any number."""
    expires_records: bool
    """The records engine deletes expired records itself, some days late."""
    has_own_engine: bool
    """The records engine is a program that the service started on this computer."""
    has_disk: bool
    """Files of this computer outlive the process, and other programs on it can read them."""
    allows_local_driver: bool
    """Folders of this computer can be mounted as storages."""
    routes_question_marks: bool
    """The path of a request may have an encoded question mark."""
    verifies_joined_uploads: bool
    """The hashes of an upload in parts are compared with the whole file after its parts are joined."""
    has_aws_role: bool
    """The process has a role of AWS, and with it the rights to the buckets of the deployment."""
    has_cold_starts: bool
    """A client may wait for the start of this process, so that each import counts."""
    emits_metrics: bool
    """Metrics are written to the standard output."""
    first_check_seconds: float
    """For the first answer of a health check."""
    remote_index: bool
    """The index files are fetched from another storage before they are read."""

    @property
    def thumbnails_folder(self) -> Path | None:
        """The folder of the thumbnails that the service makes; None where it makes none."""
        ...

    @property
    def index_folder(self) -> Path:
        """The folder of the index files on this computer."""
        ...

    def describe_own_storage(self, folder: str, bucket_variable: str) -> OwnStorage:
        """Return the storage `folder` of the service, or the bucket that a variable names. Problem without either."""
        ...

    def make_shared_folder(self, *names: str) -> Path:
        """Make a folder of staging that other programs on this computer can use. Raise Problem if there is none."""
        ...

    def require_space(self, handle: int, *, is_own: bool = False) -> None:
        """Raise DataDiskFull if the open file is on the disk of the data directory and that is full.

        `is_own`: it is an internal file of the service.
        """
        ...

    def is_data_disk_full(self) -> bool:
        """True if the disk of the records has no space left."""
        ...

    def read_figures(self) -> MachineFigures | None:
        """Return the figures of this machine, in a thread; None where there is no machine of its own."""
        ...

    def read_boot_id(self) -> str:
        """Return an id of the present start of this computer; "" where it is unknown or does not matter."""
        ...


def platform() -> Platform:
    """Return the platform of this process, which its configuration determines."""
    return config().platform
