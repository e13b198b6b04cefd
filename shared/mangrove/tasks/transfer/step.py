"""One step of a transfer: what its batches share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from mangrove.core.descriptors import wait_for_bulk
from mangrove.tasks.core.endpoints import Endpoint, TargetListing
from mangrove.tasks.core.file_copy import CopyMode
from mangrove.tasks.core.manifest import Manifest
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.core.steps import Run
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec
from mangrove.tasks.transfer.routes import TransferRoute

AT_FIRST = 4  # files that are copied at once
QUICK_SECONDS = 5.0

TransferRun: TypeAlias = Run[TransferSpec, TransferCursor]


class RampUpLimiter:
    """Files that are copied at once: few at first, one more with each that went quickly, up to `most`. Many from a slow
    source would all not be there when the time is over. None begins while free descriptors are few."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = min(AT_FIRST, most)
        self._limit = asyncio.Semaphore(self._count)
        self._last = 0.0

    async def copy(self, run: TransferRun, copying: Callable[[], Awaitable[None]]) -> bool:
        """Copy a file when there is room; False when there is no time for it any more."""
        async with self._limit:
            if not run.has_time_for(self._last):
                return False
            await wait_for_bulk()
            began = time.monotonic()
            await copying()
            self._last = time.monotonic() - began
        if self._last < QUICK_SECONDS and self._count < self._most:
            self._count += 1
            self._limit.release()
        return True


@dataclass(slots=True)
class TransferStep:
    """One step of the work of Move; `is_direct`: the target may copy many files in one call, since it refuses taken
    names by itself."""

    run: TransferRun
    route: TransferRoute
    failed: Manifest[ManifestEntry]
    listing: TargetListing
    mode: CopyMode
    is_direct: bool
    lanes: RampUpLimiter
    saved: float = field(default_factory=time.monotonic)

    @property
    def target(self) -> Endpoint:
        return self.route.target.endpoint

    @property
    def is_move(self) -> bool:
        return self.run.task.kind == "move"

    async def save(self) -> None:
        """Save, with the progress so far."""
        self.run.show_progress(self.run.cursor.bytes_done)
        await self.run.save()
        self.saved = time.monotonic()
