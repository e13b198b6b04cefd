"""The machine that packs files and folders into an archive: its models, its steps and its kind of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.identity.rights import Right
from mangrove.tasks.core.model import CopyCursor, Machine, Schema, Spec, Step, TaskKind


@dataclass(kw_only=True)
class CompressSpec(Spec):
    """Pack entries of a folder into an archive."""

    source_dir: str
    """A folder of the tree, or `/@s/<id>[/…]` of a share link."""
    share: int = 0
    """The number of the share link through which a visitor reads `source_dir`; 0 for none."""
    password: str = ""
    """The password of `source_dir`."""
    count: int = 0
    """Rows of the list of names in staging; 0 for all entries of the folder."""
    target_dir: str
    """A folder of the tree; "" for an archive that stays in staging."""
    name: str
    """The name of the archive, which ends in `.zip` or `.tar.gz`."""


@dataclass(kw_only=True)
class CompressCursor(CopyCursor):
    """The progress of the archive at its last stored part."""

    is_planned: bool = False
    """The list of packed entries is in staging."""
    entry_count: int = 0
    """The number of rows of that list."""
    position: int = 0
    """The row of the next or current entry."""
    is_begun: bool = False
    """The header of that file is in the archive."""
    offset: int = 0
    """Bytes of the file that are in the archive."""
    lost: str = ""
    """The reason why the rest of the file is filled with zeros; "" if the file can be read."""
    header_offset: int = 0
    """Bytes of the archive before that header."""
    checksum: int = 0
    """The CRC-32 of the bytes so far."""
    parts: int = 0
    """The number of stored parts of the archive."""
    size: int = 0
    """The bytes of these parts."""
    packed_count: int = 0
    """Entries in the archive."""
    is_packed: bool = False
    """The archive is in staging."""
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    """The messages of the first failures."""


COMPRESS = Schema(CompressSpec, CompressCursor)
MACHINE = Machine(
    "compress",
    COMPRESS,
    (
        Step("Plan", "worker:plan"),
        Step("Pack", "worker:pack", seconds="worker:STEP_SECONDS"),
        Step("Settle", "worker:clean"),
    ),
)
KINDS = (TaskKind("compress", "compress", "compress_task_threads_num", Right.WRITE, "Pack", "打包"),)
