"""Numbers that the processes of one machine share. Each process writes its own ones alone, so that none waits.

A place has a number of each process, its column. A process that shares with nobody has memory of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from enum import Enum, IntEnum, auto

from mangrove.core import runtime

NUMBER_BYTES = 8
RECENT_SECONDS = 1.0


class Region(Enum):
    """The uses of places, and the number of places of each."""

    CHANGES = 1 << 14
    CONNECTIONS = 1 << 12
    CHUNKS = 1 << 13
    LIMITS = 1 << 11
    TIMES = 1 << 4


COUNTED_REGIONS = (Region.CONNECTIONS, Region.CHUNKS, Region.LIMITS)  # what a process has, and has no more when it dies


def measure(processes: int) -> int:
    """Return the bytes of memory that so many processes share."""
    return sum(region.value for region in Region) * processes * NUMBER_BYTES


class SharedMemory:
    """Numbers in `memory`, which has `measure(processes)` bytes and of which this process writes `column`.

    Processes that share it are forked from one: they hash alike.
    """

    def __init__(self, memory: memoryview | None = None, processes: int = 1, column: int = 0) -> None:
        self.processes = processes
        self.column = column
        self._numbers = memoryview(bytearray(measure(1)) if memory is None else memory).cast("Q")
        self._writing = threading.Lock()
        self.changes = ChangeCounters(self)
        self.activity = ActivityTimes(self)

    def get_numbers(self, region: Region) -> memoryview:
        """Return all numbers of a region: those of a place beside each other, in the order of the columns."""
        before = list(Region)[: list(Region).index(region)]
        start = sum(other.value for other in before) * self.processes
        return self._numbers[start : start + region.value * self.processes]

    def read(self, numbers: memoryview, place: int) -> Sequence[int]:
        """Return the numbers of a place, one for each process."""
        return numbers[place * self.processes : (place + 1) * self.processes]

    def add(self, numbers: memoryview, place: int, amount: int) -> None:
        """Change the own number of a place; from any thread."""
        with self._writing:
            numbers[place * self.processes + self.column] += amount

    def forget_process(self) -> None:
        """Forget what the process of this column had when it died, and have all others read everything anew: it may
        have changed what it had no time to tell."""
        for region in COUNTED_REGIONS:
            self.clear(region)
        self.changes.bump_all()

    def clear(self, region: Region) -> None:
        """Forget all own numbers of a region."""
        numbers = self.get_numbers(region)
        numbers[self.column :: self.processes] = memoryview(bytes(region.value * NUMBER_BYTES)).cast("Q")


class Topic(IntEnum):
    """A kind of change. A folder: its entries; a tree: a folder with all below it. Drivers: all are started anew."""

    CONFIGURATION = auto()
    SESSIONS = auto()
    REFUSALS = auto()
    TASK_LISTS = auto()
    UNSENT_TASKS = auto()
    ANY_FOLDER = auto()
    EVERY_FOLDER = auto()
    FOLDER = auto()
    TREE = auto()
    DRIVERS = auto()
    INDEX_CHANGES = auto()


class ChangeCounters:
    """The number of changes of each thing. What a process remembers of a thing is right as long as the counter is the
    one that was read before the thing was.

    A change is counted before anybody is told of it; to compare takes no system call. Keys share places by their hash:
    a change of one thing may make others be read anew, never the other way round.
    """

    PLACES = Region.CHANGES.value - 1  # the first is that of everything

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._numbers = memory.get_numbers(Region.CHANGES)
        self._processes = memory.processes

    def bump(self, topic: Topic, key: Hashable = None) -> None:
        """Count a change; from any thread."""
        self._memory.add(self._numbers, 1 + hash((topic, key)) % self.PLACES, 1)

    def bump_all(self) -> None:
        """Count a change of everything."""
        self._memory.add(self._numbers, 0, 1)

    def read(self, topic: Topic, key: Hashable = None) -> int:
        """Return the present count, to be read before the thing that is remembered."""
        start = (1 + hash((topic, key)) % self.PLACES) * self._processes
        numbers, size = self._numbers, self._processes
        return sum(numbers[start : start + size]) + sum(numbers[:size])

    def read_others(self, topic: Topic, key: Hashable = None) -> int:
        """Return the present count without what this process counted."""
        place, column = 1 + hash((topic, key)) % self.PLACES, self._memory.column
        own = self._numbers[place * self._processes + column] + self._numbers[column]
        return self.read(topic, key) - own

    def read_told(self, topic: Topic) -> int:
        """Return the number of changes that other processes told of; not those of everything, when a process died."""
        place = 1 + hash((topic, None)) % self.PLACES
        counts = self._memory.read(self._numbers, place)
        return sum(counts) - counts[self._memory.column]


def change_counters() -> ChangeCounters:
    """Return the counters that this process shares with the others."""
    return runtime.get(SharedMemory).changes


class Counts:
    """The number of things that all processes have, in all (`None`) and of each key.

    Keys share places by their hash: of one there may seem to be more than there are. `part` of `parts` equal ones of
    the region is used.
    """

    def __init__(self, region: Region, part: int = 0, parts: int = 1) -> None:
        self._memory = runtime.get(SharedMemory)
        self._numbers = self._memory.get_numbers(region)
        self._places = region.value // parts
        self._start = part * self._places

    @property
    def processes(self) -> int:
        """The number of processes that share the memory."""
        return self._memory.processes

    def add(self, key: Hashable | None, amount: int) -> None:
        """Count more, or fewer, in this process."""
        self._memory.add(self._numbers, self._find_place(key), amount)

    def read_all(self, key: Hashable | None) -> int:
        """Return the number of things in all processes."""
        return sum(self._memory.read(self._numbers, self._find_place(key)))

    def read_others(self, key: Hashable | None) -> int:
        """Return the number of things in the other processes."""
        counts = self._memory.read(self._numbers, self._find_place(key))
        return sum(counts) - counts[self._memory.column]

    def _find_place(self, key: Hashable | None) -> int:
        return self._start + (0 if key is None else 1 + hash(key) % (self._places - 1))


class Activity(IntEnum):
    """A kind of activity of a process."""

    CLIENT_DOWNLOADS = auto()
    CLIENT_UPLOADS = auto()
    TASKS = auto()
    SCHEDULE = auto()
    DESCRIPTORS_SHORT = auto()


class ActivityTimes:
    """The time at which each process was last at each activity."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._times = memory.get_numbers(Region.TIMES)

    def record(self, activity: Activity) -> None:
        """Record that this process is at it now."""
        self._times[activity * self._memory.processes + self._memory.column] = time.monotonic_ns()

    def count_active(self, activity: Activity, seconds: float = RECENT_SECONDS) -> int:
        """Return the number of processes that were at it within that time."""
        since = time.monotonic_ns() - int(seconds * 1e9)
        return sum(recorded > since for recorded in self._memory.read(self._times, activity))


def activity_times() -> ActivityTimes:
    """Return the times that this process shares with the others."""
    return runtime.get(SharedMemory).activity
