"""The machine that copies and moves: its models, its steps and its kinds of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from mangrove.identity.rights import Right
from mangrove.tasks.core.model import (
    DELETE_ON_SUCCESS,
    CopyCursor,
    Machine,
    ManifestEntry,
    Schema,
    Spec,
    Step,
    TaskKind,
    WalkCursor,
)

Selection = Literal["entry", "list", "renamed_list", "files"]


@dataclass(kw_only=True)
class TransferSpec(Spec):
    """Copy or move `source` into the folder `target_dir`."""

    source: str = ""
    """A path of the tree; for staged kinds a path in staging."""
    password: str = ""
    """The password of the folder of `source`."""
    selection: Selection = "entry"
    """The selection below the source.

    "entry": the source itself. "list": the entries that a list in staging names, with the same paths below the target.
    "renamed_list": the same with paths from the list. "files": all files below it, directly into the target.
    """
    count: int = 0
    """Rows of the list."""
    target_dir: str
    """A folder of the tree."""
    name: str
    """The name in `target_dir`; "" for the folder itself."""
    overwrite: bool
    keep_existing: bool = False
    """Existing files at the target stay and do not count as a failure."""
    write_only: bool = False
    """The entries of a list may be stored in a folder that the owner may write but not read."""
    delete_policy: str = DELETE_ON_SUCCESS
    """The final states of the task after which staged bytes are removed."""

    @property
    def is_listed(self) -> bool:
        """True if only some of the entries below the source are transferred."""
        return self.selection != "entry"

    @property
    def is_rename(self) -> bool:
        """True if entries stay in their folder, which has a right of its own."""
        if self.selection == "files":
            return False
        folder = self.source if self.selection != "entry" else str(PurePosixPath(self.source).parent)
        return folder == self.target_dir


@dataclass(kw_only=True)
class TransferCursor(CopyCursor, WalkCursor):
    """The counts of the lists, and the progress in them."""

    listed: int = 0
    """Rows of the list of names that Plan has read."""
    has_unlisted_folder: bool = False
    """A folder of the request was refused or missing, and its content is not in the lists. A retry plans again."""
    only_entry: ManifestEntry | None = None
    """The source if it is a file: then there are no lists, which could be lost after a move has removed it."""
    entry_count: int = 0
    total: int = 0
    """Bytes, as far as sizes are known."""
    position: int = 0
    """Entries that the state Move has finished."""
    round: int = 0
    """The number of retries of entries that failed; `failed_count` are for the next one."""
    handed: int = 0
    """Rows from `position` on that other workers are copying, see `transfer.parts`."""
    tries: int = 0
    """The number of rounds without progress."""
    part: int | None = None
    """The chunk that the worker of this cursor copies; None for the cursor of the task."""


TRANSFER = Schema(TransferSpec, TransferCursor)
MACHINE = Machine(
    "transfer",
    TRANSFER,
    (
        Step("Plan", "worker:plan"),
        Step("Move", "worker:move", describe="parts:describe_parts"),
        Step("Part", "parts:copy_part"),
        Step("Settle", "worker:clean"),
    ),
)
KINDS = (
    TaskKind("upload", "transfer", "upload_task_threads_num", Right.WRITE, "Upload", "上传", is_staged=True),
    TaskKind("copy", "transfer", "copy_task_threads_num", Right.COPY, "Copy", "复制"),
    TaskKind("move", "transfer", "move_task_threads_num", Right.MOVE, "Move", "移动"),
    TaskKind(
        "offline_download_transfer",
        "transfer",
        "offline_download_transfer_task_threads_num",
        Right.OFFLINE_DOWNLOAD,
        "Store the download",
        "存入下载文件",
        is_staged=True,
    ),
    TaskKind(
        "decompress_upload",
        "transfer",
        "decompress_upload_task_threads_num",
        Right.DECOMPRESS,
        "Store unpacked files",
        "存入解压文件",
        is_staged=True,
    ),
)
