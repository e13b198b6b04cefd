"""The platform of functions: no permanent disk, several workers, and answers of a limited size."""

from __future__ import annotations

import os
from pathlib import Path

from mangrove.core.config import Config
from mangrove.core.platform import OwnStorage, Platform, TaskDispatcher
from mangrove.core.problems import Problem

MAX_ANSWER_BYTES = 5_500_000  # Lambda refuses 6 MB, including its own part of the answer
MAX_FILE_BYTES = 4_400_000  # that fit into a buffered answer of Lambda in base64
MAX_LISTED_ENTRIES = 100_000  # more never pass through a function
PROGRESS_INTERVAL_SECONDS = 2.0  # each write costs money
MAX_POLL_INTERVAL_SECONDS = 300  # so that the history of an execution lasts for weeks
FIRST_CHECK_SECONDS = 10.0  # a function has to connect first
DEFAULT_REGION = "us-east-1"


class CloudPlatform(Platform):
    """Lambda, Step Functions and buckets."""

    process_count = 1
    reports_changes = False
    single_task_process = False
    ends_late_steps = True
    progress_interval_seconds = PROGRESS_INTERVAL_SECONDS
    max_poll_interval_seconds = MAX_POLL_INTERVAL_SECONDS
    expires_records = True  # DynamoDB does, by the expiry that the template names
    has_own_engine = False
    has_disk = False
    routes_question_marks = False  # an HTTP API truncates a path there, however it is encoded
    verifies_joined_uploads = False  # each part was verified individually
    has_aws_role = True
    first_check_seconds = FIRST_CHECK_SECONDS
    remote_index = True

    def __init__(self, is_function: bool, dispatcher: TaskDispatcher) -> None:
        self.dispatcher = dispatcher
        self.max_answer_bytes = MAX_ANSWER_BYTES
        self.max_file_bytes = MAX_FILE_BYTES
        self.max_listed_entries = MAX_LISTED_ENTRIES
        self.allows_local_driver = not is_function
        self.has_cold_starts = is_function
        self.emits_metrics = is_function

    @property
    def thumbnails_folder(self) -> Path | None:
        return None  # no function has the library that decodes pictures

    @property
    def index_folder(self) -> Path:
        import tempfile  # takes milliseconds, and few functions have an index

        return Path(tempfile.gettempdir()) / "index"

    def describe_own_storage(self, folder: str, bucket_variable: str) -> OwnStorage:
        bucket = os.environ.get(bucket_variable, "")
        if not bucket:
            raise Problem(f"there is no place for {folder}")
        region = os.environ.get("AWS_REGION", DEFAULT_REGION)
        return OwnStorage("S3", {"bucket": bucket, "region": region, "root_folder_path": "/"})

    def make_shared_folder(self, *names: str) -> Path:
        raise Problem("there is no folder that this service shares with other programs")

    def require_space(self, handle: int, *, is_own: bool = False) -> None:
        """Do nothing: files of a function are not kept."""

    def is_data_disk_full(self) -> bool:
        return False

    def read_figures(self) -> None:
        """Return None: CloudWatch has the figures of functions."""
        return None

    def read_boot_id(self) -> str:
        return ""


def make_platform(config: Config) -> CloudPlatform:
    """Return the platform for a process of this configuration."""
    # imported here: only a process that calls it has the kinds of tasks
    from mangrove.cloud.step_functions import StepFunctions

    return CloudPlatform(config.is_function, StepFunctions())
