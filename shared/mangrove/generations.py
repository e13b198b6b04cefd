"""How often things changed, counted where all processes of one machine see it: what is remembered of a thing is right
as long as its count is the one that was read before the thing was.

Whoever changes something notes it before anybody is told; whoever remembers something compares, without a system call.
Counts share places by their hash: a change of one thing may make others be read anew, never the other way round.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from enum import IntEnum, auto

from mangrove import runtime

PLACES = 1 << 14
BYTES = 8  # of one count


class Topic(IntEnum):
    """What changes. A folder: its entries; a tree: a folder with all below it."""

    CONFIGURATION = auto()
    SESSIONS = auto()
    REFUSALS = auto()
    TASK_LISTS = auto()
    UNSENT_TASKS = auto()
    ANY_FOLDER = auto()
    EVERY_FOLDER = auto()
    FOLDER = auto()
    TREE = auto()


def measure(processes: int) -> int:
    """Bytes of memory that so many processes share."""
    return PLACES * processes * BYTES


class Generations:
    """The counts. `memory` is of `measure(processes)` bytes, of which each process writes its own `column` alone, so
    that none waits for another; without it, they are those of one process.

    Processes that share it are forked from one: they hash alike.
    """

    def __init__(self, memory: memoryview | None = None, processes: int = 1, column: int = 0) -> None:
        self._counts = memoryview(bytearray(measure(1)) if memory is None else memory).cast("Q")
        self._processes = processes
        self._column = column
        self._noting = threading.Lock()

    def note(self, topic: Topic, key: Hashable = None) -> None:
        """Count a change; from any thread."""
        self._raise(1 + hash((topic, key)) % (PLACES - 1))

    def note_all(self) -> None:
        """Count a change of everything: what a process that died has changed and not noted."""
        self._raise(0)

    def read(self, topic: Topic, key: Hashable = None) -> int:
        """The present count."""
        start = (1 + hash((topic, key)) % (PLACES - 1)) * self._processes
        counts, end = self._counts, self._processes
        return sum(counts[start : start + end]) + sum(counts[:end])

    def read_others(self, topic: Topic, key: Hashable = None) -> int:
        """The same without what this process noted."""
        start = (1 + hash((topic, key)) % (PLACES - 1)) * self._processes
        return self.read(topic, key) - self._counts[start + self._column] - self._counts[self._column]

    def _raise(self, place: int) -> None:
        index = place * self._processes + self._column
        with self._noting:
            self._counts[index] += 1


def note(topic: Topic, key: Hashable = None) -> None:
    """Count a change."""
    runtime.get(Generations).note(topic, key)


def read(topic: Topic, key: Hashable = None) -> int:
    """The present count, to be read before the thing that is remembered."""
    return runtime.get(Generations).read(topic, key)
