"""The receipts of a file's parts: rows in staging, so that progress costs the same however many there are."""

from __future__ import annotations

from typing import NamedTuple

from mangrove.tasks.core import staging
from mangrove.tasks.core.manifest import Manifest, ManifestLost
from mangrove.tasks.core.specs import Cursor, CursorT, PartialFile, SpecT
from mangrove.tasks.core.steps import Run


class NumberedReceipt(NamedTuple):
    """The receipt of a part; numbers begin with 0."""

    number: int
    text: str


def _get_folder(task_id: str) -> str:
    """The name in staging under which a task keeps receipts: they go when it ends, whatever else stays."""
    return f"{task_id}.parts"


class PartReceipts:
    """The receipts of one file. What was added counts with `save`, once the cursor is saved after it."""

    def __init__(self, task_id: str, cursor: Cursor, partial: PartialFile) -> None:
        self._cursor = cursor
        self._partial = partial
        self._found: dict[int, str] = {}
        self._rows = Manifest(
            _get_folder(task_id), partial.key, partial.receipt_count, lambda row: NumberedReceipt(*row)
        )

    @classmethod
    async def load(cls, run: Run[SpecT, CursorT], partial: PartialFile) -> PartReceipts:
        """Those that count; ManifestLost when not all of them are there."""
        made = cls(run.task.id, run.cursor, partial)
        while rows := await made._rows.read_rows(len(made._found)):
            made._found |= {row.number: row.text for row in rows}
        return made

    def __contains__(self, number: int) -> bool:
        return number in self._found

    def __len__(self) -> int:
        return len(self._found)

    def list(self) -> list[str]:
        """All, in the order of the parts."""
        return [text for _, text in sorted(self._found.items())]

    async def add(self, number: int, text: str) -> None:
        """Add the receipt of a part that was stored."""
        self._cursor.has_receipts = True
        self._found[number] = text
        await self._rows.append(NumberedReceipt(number, text))

    async def save(self) -> None:
        """Store what was added."""
        await self._rows.flush()
        self._partial.receipt_count = self._rows.count


async def find_receipts(run: Run[SpecT, CursorT], partial: PartialFile) -> PartReceipts | None:
    """The receipts of a file; None when some of them are lost, so that its parts are of no use."""
    try:
        return await PartReceipts.load(run, partial)
    except ManifestLost:
        return None


async def drop_receipts(run: Run[SpecT, CursorT]) -> None:
    """Remove the receipts of all files of a task, when nothing is gone on with any more."""
    if run.cursor.has_receipts:
        await staging.clear(_get_folder(run.task.id))
