"""The platform: everything that differs between the service in the cloud and the service on one computer.

`mangrove.core.config` says which of the two packages implements it for this process. No other module decides by where
it runs; each asks the platform for a value or calls a method of it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mangrove.core import runtime
from mangrove.core.config import Config, config


class TaskDispatcher(Protocol):
    """Hands tasks to the workers. Each `task` is the record of a task."""

    @property
    def is_remote(self) -> bool:
        """True if another process of this computer runs the tasks. Only that process knows which tasks it holds."""
        ...

    def start(self, task: Any, suffix: str = "") -> None:
        """Start the run `task.attempt`. Starting it twice is one run, unless a `suffix` makes two of it. Problem when
        that is not possible; the sweep repeats a start that was refused because there were too many."""
        ...

    def expedite(self, task: Any) -> None:
        """Let a cancelled task end now, also while it waits for a worker."""
        ...

    def forget(self, task: Any) -> None:
        """Note that a task was deleted before its first run."""
        ...


class OwnStorage(NamedTuple):
    """The driver and the options of a storage that the service keeps for itself."""

    driver: str
    options: dict[str, Any]


class Platform(Protocol):
    """The place where this process runs, for every package."""

    dispatcher: TaskDispatcher
    process_count: int
    """Processes of the service on this computer that answer requests."""

    reports_changes: bool
    """Every process learns at once of what another one changes; elsewhere a process has to look."""
    single_task_process: bool
    """One process runs all tasks: leases, concurrency and a cursor between two steps are kept in its memory."""
    ends_late_steps: bool
    """A step that takes too long is killed; elsewhere it may finish what it has begun."""
    progress_interval_seconds: float
    """Between two writes of the progress of a file's parts."""
    max_poll_interval_seconds: int
    """Between two looks at what an external download tool does."""
    max_answer_bytes: int | None
    """Of an answer, which is collected first; None: answers have any size and are sent as they are made."""
    max_file_bytes: int | None
    """Of a file that passes through the service in one request; None: any size."""
    max_listed_entries: int | None
    """Of a folder that is read as a whole; None: any number."""
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
    """For the first answer of what a health check looks at."""
    remote_index: bool
    """The index files are fetched from another storage before they are read."""

    @property
    def index_folder(self) -> Path:
        """The folder of the index files on this computer."""
        ...

    def describe_own_storage(self, folder: str, bucket_variable: str) -> OwnStorage:
        """Return the storage `folder` of the service, or the bucket that a variable names. Problem without either."""
        ...

    def make_shared_folder(self, *names: str) -> Path:
        """Make a folder of staging that programs beside this service can use. Problem where there is none."""
        ...

    def require_space(self, handle: int, *, is_own: bool = False) -> None:
        """DataDiskFull if the open file lies on the disk of the data directory and that is full. `is_own`: the service
        keeps the file for itself."""
        ...

    def is_data_disk_full(self) -> bool:
        """True if the disk of the records has no space left."""
        ...

    def read_boot_id(self) -> str:
        """Return an id of the present start of this computer; "" where it is unknown or does not matter."""
        ...


class CurrentPlatform:
    """The platform of the present configuration."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._platform: Platform | None = None

    def find(self) -> Platform:
        """Return the platform; made anew after the configuration was replaced."""
        present = config()
        if self._platform is None or self._config is not present:
            self._config = present
            self._platform = import_module(f"mangrove.{present.platform}.platform").make_platform(present)
        return self._platform


def platform() -> Platform:
    """Return the platform of this process."""
    return runtime.get(CurrentPlatform).find()
