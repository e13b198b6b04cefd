"""The platform of `mangrove serve`: a data directory, and processes that notify each other of changes."""

from __future__ import annotations

import os
from pathlib import Path

from mangrove.core.config import Config
from mangrove.core.platform import MachineFigures, OwnStorage, Platform, TaskDispatcher
from mangrove.core.problems import DataDiskFull
from mangrove.standalone.data_directory import DiskReserve
from mangrove.standalone.engine import is_elsewhere
from mangrove.standalone.figures import read_figures

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
POLL_INTERVAL_SECONDS = 3
FIRST_CHECK_SECONDS = 2.0


class StandalonePlatform(Platform):
    """One computer, with `data` as the data directory."""

    reports_changes = True
    single_task_process = True
    ends_late_steps = False
    progress_interval_seconds = 0.0  # a stored part counts immediately, also if the process is killed
    max_poll_interval_seconds = POLL_INTERVAL_SECONDS
    max_answer_bytes = None
    max_file_bytes = None
    expires_records = False
    max_listed_entries = None
    has_disk = True
    allows_local_driver = True
    routes_question_marks = True
    verifies_joined_uploads = True
    has_aws_role = False
    has_cold_starts = False
    emits_metrics = False
    first_check_seconds = FIRST_CHECK_SECONDS
    remote_index = False

    def __init__(self, data: Path, dispatcher: TaskDispatcher) -> None:
        self._data = data
        self._reserve = DiskReserve(data)
        self.process_count = 1
        self.has_own_engine = not is_elsewhere()
        self.dispatcher = dispatcher

    @property
    def thumbnails_folder(self) -> Path | None:
        return self._data / "thumbnails"

    @property
    def index_folder(self) -> Path:
        return self._data / "index"

    def describe_own_storage(self, folder: str, bucket_variable: str) -> OwnStorage:
        root = self._data / folder
        root.mkdir(mode=0o700, exist_ok=True)
        return OwnStorage("Local", {"root_folder_path": str(root), "show_hidden": True})

    def make_shared_folder(self, *names: str) -> Path:
        path = self._data.absolute() / "staging"
        path.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            path /= name
            path.mkdir(mode=0o700, exist_ok=True)
        return path

    def require_space(self, handle: int, *, is_own: bool = False) -> None:
        if not self._reserve.is_on_disk(os.fstat(handle).st_dev):
            return
        if self._reserve.is_full_for_service() if is_own else self._reserve.is_full():
            raise DataDiskFull

    def is_data_disk_full(self) -> bool:
        return self._reserve.is_full()

    def read_figures(self) -> MachineFigures:
        return read_figures(self._data)

    def read_boot_id(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return ""


def make_platform(config: Config) -> StandalonePlatform:
    """Return the platform for a process of this configuration, which has a data directory."""
    from mangrove.standalone.leader import TaskLeader  # imported here: only a process that calls it uses the records

    assert config.data is not None
    return StandalonePlatform(config.data, TaskLeader())
