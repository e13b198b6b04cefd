"""The machine that downloads: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.identity.rights import Right
from mangrove.tasks.core.model import Cursor, Machine, Schema, Spec, Step, TaskKind


@dataclass(kw_only=True)
class DownloadSpec(Spec):
    """Download a URL into a folder."""

    url: str
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
