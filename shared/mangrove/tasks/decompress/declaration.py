"""The machine that extracts archives: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.identity.rights import Right
from mangrove.tasks.core.model import CopyCursor, ListProgress, Machine, Schema, SourceVersion, Spec, Step, TaskKind


@dataclass(kw_only=True)
class DecompressSpec(Spec):
    """Extract an archive, or those of a list, into a folder."""

    source: str
    """The archive, or the folder of the archives: a path of the tree."""
    count: int = 0
    """Rows of the list of archives in staging; 0 for a single one."""
    into_new_dir: bool = False
    """Extract each archive of the list into a folder with its name."""
    password: str
    """The password of the folder of the archives."""
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
    rows: ListProgress = field(default_factory=ListProgress)
    archive_name: str = ""
    """The archive of the list that is being extracted; the other fields are about it."""


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
