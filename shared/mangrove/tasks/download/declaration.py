"""The machine that downloads: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.identity.rights import Right
from mangrove.tasks.core.declarations import Machine, Step, TaskKind
from mangrove.tasks.core.specs import Cursor, Schema, Spec


@dataclass(kw_only=True)
class DownloadSpec(Spec):
    """Fetch `url` with `tool` into the folder `target_dir` of the tree."""

    url: str
    tool: str
    target_dir: str
    delete_policy: str


@dataclass(kw_only=True)
class DownloadCursor(Cursor):
    """`started` in seconds since the epoch. `token`: the tool's, None before it has the address; `missed`: calls in a
    row that it did not answer; `shared`: it still gives to others what it has downloaded.

    `complete`: SimpleHttp has stored every byte.
    """

    started: float = 0.0
    token: str | None = None
    missed: int = 0
    shared: bool = False
    complete: bool = False


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
KINDS = (TaskKind("offline_download", "download", "offline_download_task_threads_num", Right.OFFLINE_DOWNLOAD),)
