"""What Plan writes down of a tree: its folders, those above before those below, and what else is to be worked on."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from mangrove.core.paths import TreePath
from mangrove.core.problems import Changed
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.paging import find_paged
from mangrove.tasks.core import manifest
from mangrove.tasks.core.manifest import Manifest
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.transfer.step import TransferRun

SAVE_SECONDS = 2.0
Walk = Callable[[str, str], AsyncGenerator[str, None]]


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
        if time.monotonic() - self.saved > SAVE_SECONDS:
            await self.flush()
            await self.run.save()
            self.saved = time.monotonic()

    async def walk(self, walk: Walk) -> bool:
        """Go on through the folders: `walk` of the path of one and of the page where it goes on, as `walk_folder`.
        Whether there is more."""
        cursor = self.run.cursor
        while cursor.folders_walked < self.folders.count:
            for name in await self.folders.read_rows(cursor.folders_walked):
                async for next_page in walk(name, cursor.next_page):
                    cursor.next_page = next_page
                    cursor.folders_walked += 0 if next_page else 1
                    self.count()
                    if not self.run.has_time():
                        return True
        return False


async def walk_folder(
    driver: Driver, path: TreePath, start: str, take: Callable[[Sequence[Entry]], Awaitable[None]]
) -> AsyncGenerator[str, None]:
    """Hand what a folder holds to `take`, from the page that begins at `start`. Yields after each page where the next
    one begins, "" at the end; a storage without pages has one."""
    place = await find_paged(driver, path)
    if place is None and start:
        raise Changed("something was mounted in a folder while it was walked")
    if place is None:
        async for batch in driver.list(path):
            await take(batch)
        yield ""
        return
    while True:
        page = await place.driver.list_page(place.path, start)
        await take(page.entries)
        yield page.next_start
        if not page.next_start:
            return
        start = page.next_start
