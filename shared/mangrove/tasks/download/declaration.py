"""The machine that downloads: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.identity.rights import Right
from mangrove.tasks.core.model import Cursor, ListProgress, Machine, Schema, Spec, Step, TaskKind


@dataclass(kw_only=True)
class DownloadSpec(Spec):
    """Download a URL, or those of a list, into a folder."""

    url: str
    """"" if there is a list."""
    count: int = 0
    """Rows of the list of URLs in staging."""
    tool: str
    """The name of the download tool."""
    target_dir: str
    """A folder of the tree."""
    delete_policy: str
    """The final states of the transfer after which staged bytes are removed."""


@dataclass(kw_only=True)
class DownloadCursor(Cursor):
    """The progress of the download."""

    started: float = 0.0
    """In seconds since the epoch."""
    token: str | None = None
    """The tool's own; None before the tool has the URL."""
    missed: int = 0
    """Consecutive calls that the tool did not answer."""
    shared: bool = False
    """The tool is still uploading the files to others."""
    complete: bool = False
    """SimpleHttp has stored every byte."""
    url: str = ""
    """The URL of the list that is fetched in parts."""
    rows: ListProgress = field(default_factory=ListProgress)
    """Its position counts rows that are staged, that failed, or that `large_rows` names."""
    large_rows: list[int] = field(default_factory=list)
    """Rows of large files; they are fetched one by one."""
    group: int = 0
    """The number of the present group of files, which one transfer stores."""
    group_files: int = 0
    group_start: int = 0
    """The position at the start of the group."""
    group_failures: int = 0
    """The number of failed rows at the start of the group."""
    boot: str = ""
    """The boot of the computer during which the group was staged, see `Platform.read_boot_id`."""


DOWNLOAD = Schema(DownloadSpec, DownloadCursor)
MACHINE = Machine(
    "download",
    DOWNLOAD,
    (
        Step("Begin", "worker:begin", attempts=2),
        Step("Poll", "worker:poll", seconds="worker:STEP_SECONDS"),
        Step("Settle", "worker:clean"),
    ),
)
KINDS = (
    TaskKind(
        "offline_download",
        "download",
        "offline_download_task_threads_num",
        Right.OFFLINE_DOWNLOAD,
        "Download",
        "离线下载",
    ),
)
