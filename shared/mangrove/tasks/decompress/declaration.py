"""The machine that extracts archives: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.identity.rights import Right
from mangrove.tasks.core.model import CopyCursor, Machine, Schema, SourceVersion, Spec, Step, TaskKind


@dataclass(kw_only=True)
class DecompressSpec(Spec):
    """Extract an archive into a folder."""

    source: str
    """The archive: a path of the tree."""
    password: str
    """The password of the folder of `source`."""
    archive_password: str
    inner: str
    """The file or folder in the archive to extract, `/` for all."""
    cache_full: bool
    """Copy the archive into staging first."""
    target_dir: str
    """A folder of the tree."""
    name: str
    """The name in `target_dir`; "" for the folder itself."""
    overwrite: bool


@dataclass(kw_only=True)
class DecompressCursor(CopyCursor):
    """The progress of the extraction into staging."""

    archive: SourceVersion | None = None
    """The archive at the start of the work."""
    boot: str = ""
    """The boot of the computer during which the members were stored, see `Platform.read_boot_id`."""
    cached: bool = False
    """The archive is in staging."""
    folders_made: bool = False
    position: int = 0
    """The index of the next member."""
    files: int = 0
    """Members that are in staging."""
    refused: int = 0
    """Members that could not be extracted."""
    errors: list[str] = field(default_factory=list)
    """The messages of the first of them."""
    chained: bool = False
    """The transfer of the members is enqueued."""


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
KINDS = (
    TaskKind("decompress", "decompress", "decompress_download_task_threads_num", Right.DECOMPRESS, "Unpack", "解压"),
)
