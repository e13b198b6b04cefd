"""The reserve of the data disk: a file that is given up when the disk is full, for the records to be written.

Its length is its state, for all processes: whole, or 0 after it was given up. A disk too small for it has none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mangrove.core.telemetry import log_event, log_warning
from mangrove.standalone.data_directory import ROOM_BYTES

NAME = ".reserve"
RESERVE_BYTES = 8 << 20
MIN_FREE_BYTES = ROOM_BYTES  # with less, the disk counts as full
OWN_FREE_BYTES = RESERVE_BYTES // 2  # of a reserve that was given up, for the records alone
REFILL_FREE_BYTES = 2 * RESERVE_BYTES  # with which the reserve is made again


class DiskReserve:
    """The reserve on the disk of the data directory. Its methods block for microseconds, but for `update`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._path = data / NAME
        self._device: int | None = None

    def update(self) -> None:
        """Give the reserve up when the disk is full, and make it again when there is room. One process does this."""
        with suppress(OSError):
            free, size = self._find_free(), self._find_size()
            if size and free < MIN_FREE_BYTES:
                os.truncate(self._path, 0)
                log_warning("the data disk is full: nothing but records is written to it", bytes=free)
            elif not size and free >= REFILL_FREE_BYTES:
                self._fill()
                if size == 0:
                    log_event("the data disk has room again", bytes=free)

    def is_on_disk(self, device: int) -> bool:
        """True if files of this device lie on the data disk."""
        if self._device is None:
            try:
                self._device = os.stat(self._data).st_dev
            except OSError:  # nothing was stored there yet
                return False
        return device == self._device

    def is_full(self) -> bool:
        """True if files of users may not be written to the data disk."""
        return self._find_size() == 0 or self._find_free() < MIN_FREE_BYTES

    def is_full_for_service(self) -> bool:
        """True if files that the service keeps for itself may not be written to the data disk either."""
        return self._find_free() < (OWN_FREE_BYTES if self._find_size() == 0 else MIN_FREE_BYTES)

    def _find_free(self) -> int:
        disk = os.statvfs(self._data)
        return disk.f_bavail * disk.f_frsize

    def _find_size(self) -> int | None:
        """Return the length of the file; None where there is none."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return None

    def _fill(self) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(handle, 0, RESERVE_BYTES)
        except OSError:
            os.ftruncate(handle, 0)
            raise
        finally:
            os.close(handle)
