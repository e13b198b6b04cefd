"""The list of a request as the rows of one task, see `ListProgress`."""

from __future__ import annotations

from dataclasses import replace

from mangrove.core.problems import Problem, StorageProblem
from mangrove.tasks.core import staging
from mangrove.tasks.core.model import ListProgress, ManifestEntry
from mangrove.tasks.core.staging import ListLost, ManifestLost, StagedList
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES


class RequestedRows:
    """The rows of the present round, and those of the next one."""

    def __init__(self, task_id: str, progress: ListProgress) -> None:
        self.progress = progress
        if progress.round:
            self._rows = _open_failed(task_id, progress.round, progress.row_count)
        else:
            self._rows = staging.open_requested(task_id, progress.row_count)
        self._failed = _open_failed(task_id, progress.round + 1, progress.failed_count)

    @property
    def is_over(self) -> bool:
        """True if all rows are done or failed."""
        return self.progress.position >= self.progress.row_count

    async def read(self, start: int, max_rows: int) -> list[ManifestEntry]:
        """Return rows of this round from `start` on. Raise ListLost."""
        try:
            return (await self._rows.read_rows(start))[:max_rows]
        except ManifestLost:
            raise ListLost from None

    async def add_failure(self, row: ManifestEntry, problem: Problem) -> None:
        """Record a row for the next round."""
        await self._failed.append(row)
        self.progress.failed_count = self._failed.count
        if len(self.progress.errors) < MAX_NAMED_FAILURES:
            self.progress.errors.append(f"{row.path}: {problem.message}")

    async def flush(self) -> None:
        """Store the failed rows. Call it before the progress is saved."""
        await self._failed.flush()

    def raise_failures(self) -> None:
        """Raise StorageProblem with the first failures, if there are any."""
        if self.progress.failed_count:
            errors = "; ".join(self.progress.errors)
            raise StorageProblem(f"{self.progress.failed_count} of {self.progress.row_count} items failed: {errors}")


def _open_failed(task_id: str, round: int, count: int) -> StagedList[ManifestEntry]:
    return StagedList(task_id, f"failed-{round}", count, staging.parse_entry)


def continue_rows(progress: ListProgress, count: int) -> ListProgress:
    """Return the progress of the next run over a list of `count` rows: those that are left, or those that failed."""
    if not progress.row_count:
        return ListProgress(row_count=count)
    if progress.position < progress.row_count or not progress.failed_count:
        return replace(progress, errors=[])
    return ListProgress(round=progress.round + 1, row_count=progress.failed_count)
