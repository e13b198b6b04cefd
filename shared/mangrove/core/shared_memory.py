"""Numbers that the processes of one machine share, each of which writes its own alone: none waits for another.

A place has a number of each process, its column. What a process leaves behind when it dies its successor begins with,
unless it is cleared. One that shares with nobody has memory of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from enum import Enum, IntEnum, auto

from mangrove.core import runtime

BYTES = 8  # of a number
RECENT_SECONDS = 1.0


class Region(Enum):
    """What places are for; how many there are."""

    GENERATIONS = 1 << 14
    CONNECTIONS = 1 << 12
    CHUNKS = 1 << 13
    TIMES = 1 << 4


def measure(processes: int) -> int:
    """Bytes of memory that so many processes share."""
    return sum(region.value for region in Region) * processes * BYTES


class SharedMemory:
    """`memory` is of `measure(processes)` bytes, of which this process writes `column`.

    Processes that share it are forked from one: they hash alike.
    """

    def __init__(self, memory: memoryview | None = None, processes: int = 1, column: int = 0) -> None:
        self.processes = processes
        self.column = column
        self._numbers = memoryview(bytearray(measure(1)) if memory is None else memory).cast("Q")
        self._writing = threading.Lock()

    def get_numbers(self, region: Region) -> memoryview:
        """All numbers of a region: those of a place beside each other, in the order of the columns."""
        before = list(Region)[: list(Region).index(region)]
        start = sum(other.value for other in before) * self.processes
        return self._numbers[start : start + region.value * self.processes]

    def read(self, numbers: memoryview, place: int) -> Sequence[int]:
        """The numbers of a place, one for each process."""
        return numbers[place * self.processes : (place + 1) * self.processes]

    def add(self, numbers: memoryview, place: int, amount: int) -> None:
        """Change the own number of a place; from any thread."""
        with self._writing:
            numbers[place * self.processes + self.column] += amount

    def clear(self, region: Region) -> None:
        """Forget all own numbers of a region."""
        numbers = self.get_numbers(region)
        numbers[self.column :: self.processes] = memoryview(bytes(region.value * BYTES)).cast("Q")


class Counts:
    """How many there are of something in the other processes, in all (`None`) or of one key.

    Keys share places by their hash: of one there may seem to be more than there are.
    """

    def __init__(self, region: Region) -> None:
        self._memory = runtime.get(SharedMemory)
        self._numbers = self._memory.get_numbers(region)
        self._places = region.value

    def add(self, key: Hashable | None, amount: int) -> None:
        """Count more, or fewer, in this process."""
        self._memory.add(self._numbers, self._find_place(key), amount)

    def read_others(self, key: Hashable | None) -> int:
        """How many there are in the other processes."""
        counts = self._memory.read(self._numbers, self._find_place(key))
        return sum(counts) - counts[self._memory.column]

    def _find_place(self, key: Hashable | None) -> int:
        return 0 if key is None else 1 + hash(key) % (self._places - 1)


class Activity(IntEnum):
    """What a process may have been at lately."""

    CLIENT_DOWNLOADS = auto()
    CLIENT_UPLOADS = auto()
    TASKS = auto()
    SCHEDULE = auto()


class ActivityTimes:
    """When each process was last at something."""

    def __init__(self) -> None:
        self._memory = runtime.get(SharedMemory)
        self._times = self._memory.get_numbers(Region.TIMES)

    def note(self, activity: Activity) -> None:
        """This process is at it now."""
        self._times[activity * self._memory.processes + self._memory.column] = time.monotonic_ns()

    def count_active(self, activity: Activity, seconds: float = RECENT_SECONDS) -> int:
        """How many processes were at it within that time."""
        since = time.monotonic_ns() - int(seconds * 1e9)
        return sum(noted > since for noted in self._memory.read(self._times, activity))
