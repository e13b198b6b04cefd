"""The machine that extracts archives: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.identity.rights import Right
from mangrove.tasks.core.declarations import Machine, Step, TaskKind
from mangrove.tasks.core.specs import CopyCursor, Schema, SourceVersion, Spec


@dataclass(kw_only=True)
class DecompressSpec(Spec):
    """Extract `inner` (a path in the archive, `/` for all) of the archive `source` into the folder `target_dir` as
    `name`; "" for the folder itself. `cache_full`: bring the archive into staging first."""

    source: str
    password: str
    archive_password: str
    inner: str
    cache_full: bool
    target_dir: str
    name: str
    overwrite: bool


@dataclass(kw_only=True)
class DecompressCursor(CopyCursor):
    """`position`: the next member; `archive`: what the archive was when the work began. `bytes_done` and `files` count
    what is in staging, `refused` the members that are not; `boot`: when they were brought (`Platform.read_boot_id`)."""

    archive: SourceVersion | None = None
    boot: str = ""
    cached: bool = False
    folders_made: bool = False
    position: int = 0
    files: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)
    chained: bool = False


DECOMPRESS = Schema(DecompressSpec, DecompressCursor)
MACHINE = Machine(
    "decompress",
    DECOMPRESS,
    (
        Step("Plan", "worker:plan"),
        Step("Extract", "worker:extract", seconds="worker:STEP_SECONDS"),
        Step("Settle", "worker:clean"),
    ),
)
KINDS = (TaskKind("decompress", "decompress", "decompress_download_task_threads_num", Right.DECOMPRESS),)
