"""The lists that Plan writes: folders, each before those below it, and all entries that are to be copied."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from mangrove.drivers.base import Entry
from mangrove.tasks.core import manifest
from mangrove.tasks.core.manifest import Manifest
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.core.steps import SAVE_INTERVAL_SECONDS
from mangrove.tasks.transfer.step import TransferRun


@dataclass(slots=True)
class Lists:
    """The lists that a plan fills; `total` bytes, as far as sizes are known."""

    run: TransferRun
    entries: Manifest[ManifestEntry]
    folders: Manifest[str]
    total: int
    saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, run: TransferRun) -> Lists:
        """The lists as far as the cursor counts them."""
        id, cursor = run.task.id, run.cursor
        entries = manifest.open_entries(id, 0, cursor.entry_count)
        return cls(run, entries, manifest.open_folders(id, cursor.folder_count), cursor.total)

    async def add(self, path: str, entry: Entry) -> None:
        """Write an entry down, and of a folder that it is to be walked through."""
        await self.entries.append(ManifestEntry.of(path, entry))
        if entry.is_dir:
            await self.folders.append(path)
        else:
            self.total += entry.size or 0

    def count(self) -> None:
        """All that was written down so far belongs to the plan; what comes after that is written down anew after a
        failure."""
        cursor = self.run.cursor
        cursor.entry_count, cursor.folder_count, cursor.total = self.entries.count, self.folders.count, self.total

    async def flush(self) -> None:
        """Store what was written down."""
        await self.entries.flush()
        await self.folders.flush()

    async def save(self) -> None:
        """Count, and now and then have the record know it."""
        self.count()
        if time.monotonic() - self.saved > SAVE_INTERVAL_SECONDS:
            await self.flush()
            await self.run.save()
            self.saved = time.monotonic()
