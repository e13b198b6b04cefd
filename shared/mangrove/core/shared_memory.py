"""Numbers that the processes of one machine share. Each process writes only its own numbers, so that none waits.

A place has one number per process, its column. A process that shares with no other has memory of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from enum import Enum, IntEnum, auto

from mangrove.core import runtime
from mangrove.core.metrics import PLACES, Metrics

NUMBER_BYTES = 8
RECENT_SECONDS = 1.0
ACTIVE_SECONDS = 600.0  # for which a session counts as active after its last use


class Region(Enum):
    """The regions of places, and the number of places in each."""

    CHANGES = 1 << 14
    CONNECTIONS = 1 << 12
    CHUNKS = 1 << 13
    LIMITS = 1 << 11
    TIMES = 1 << 4
    SESSIONS = 1 << 10
    METRICS = PLACES


# resources that a process has, and loses when it dies
COUNTED_REGIONS = (Region.CONNECTIONS, Region.CHUNKS, Region.LIMITS)


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
        self.sessions = SessionTimes(self)
        self.metrics = Metrics(self.get_numbers(Region.METRICS), processes, column)

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
        """Reset the numbers of a dead process, and make all others read everything again: it may have made changes
        without reporting them.
        """
        for region in COUNTED_REGIONS:
            self.clear(region)
        self.changes.bump_all()

    def clear(self, region: Region) -> None:
        """Reset all own numbers of a region."""
        numbers = self.get_numbers(region)
        numbers[self.column :: self.processes] = memoryview(bytes(region.value * NUMBER_BYTES)).cast("Q")


class Topic(IntEnum):
    """A kind of change. A folder: its entries; a tree: a folder with everything below it.

    Drivers: all are restarted.
    """

    CONFIGURATION = auto()
    SESSIONS = auto()
    REFUSALS = auto()
    TASK_LISTS = auto()
    UNSENT_TASKS = auto()
    ANY_FOLDER = auto()
    ANY_TREE = auto()
    EVERY_FOLDER = auto()
    FOLDER = auto()
    TREE = auto()
    DRIVERS = auto()
    INDEX_CHANGES = auto()
    STORAGE_STATES = auto()
    ADDED_RECORDS = auto()


class ChangeCounters:
    """The number of changes of each thing.

    A cached value is valid as long as the counter equals the one that was read before the value. A change is counted
    before it is reported anywhere; a comparison needs no system call. Keys share places by their hash: a change of one
    thing may invalidate others, but is never missed.
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
        """Return the present count, to be read before the value that is cached."""
        start = (1 + hash((topic, key)) % self.PLACES) * self._processes
        numbers, size = self._numbers, self._processes
        return sum(numbers[start : start + size]) + sum(numbers[:size])

    def read_others(self, topic: Topic, key: Hashable = None) -> int:
        """Return the present count without what this process counted."""
        place, column = 1 + hash((topic, key)) % self.PLACES, self._memory.column
        own = self._numbers[place * self._processes + column] + self._numbers[column]
        return self.read(topic, key) - own

    def read_told(self, topic: Topic) -> int:
        """Return the number of changes that other processes reported; without those of everything, counted when a
        process died.
        """
        place = 1 + hash((topic, None)) % self.PLACES
        counts = self._memory.read(self._numbers, place)
        return sum(counts) - counts[self._memory.column]


def change_counters() -> ChangeCounters:
    """Return the counters that this process shares with the others."""
    return runtime.get(SharedMemory).changes


class Counts:
    """The number of things of all processes, in total (`None`) and by key.

    Keys share places by their hash: the number of one may seem larger than it is. `part` of `parts` equal ones of the
    region is used.
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
        """Record that this process does it now."""
        self._times[activity * self._memory.processes + self._memory.column] = time.monotonic_ns()

    def count_active(self, activity: Activity, seconds: float = RECENT_SECONDS) -> int:
        """Return the number of processes that did it within that time."""
        since = time.monotonic_ns() - int(seconds * 1e9)
        return sum(recorded > since for recorded in self._memory.read(self._times, activity))


class SessionTimes:
    """The time at which each session was last used, in any process. Sessions share places by their hash."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._times = memory.get_numbers(Region.SESSIONS)

    def record(self, token: str) -> None:
        """Record that the session of a token is used now."""
        place = hash(token) % Region.SESSIONS.value
        self._times[place * self._memory.processes + self._memory.column] = time.monotonic_ns()

    def count_active(self, seconds: float = ACTIVE_SECONDS) -> int:
        """Return the number of sessions that were used within that time."""
        since, processes = time.monotonic_ns() - int(seconds * 1e9), self._memory.processes
        times = self._times.tolist()
        return sum(
            any(recorded > since for recorded in times[start : start + processes])
            for start in range(0, len(times), processes)
        )


def session_times() -> SessionTimes:
    """Return the times of sessions that this process shares with the others."""
    return runtime.get(SharedMemory).sessions


def metrics() -> Metrics:
    """Return the metrics that this process shares with the others."""
    return runtime.get(SharedMemory).metrics


def activity_times() -> ActivityTimes:
    """Return the times that this process shares with the others."""
    return runtime.get(SharedMemory).activity
