"""How often things changed, counted where all processes of one machine see it: what is remembered of a thing is right
as long as its count is the one that was read before the thing was.

Whoever changes something notes it before anybody is told; whoever remembers something compares, without a system call.
Counts share places by their hash: a change of one thing may make others be read anew, never the other way round.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum, auto

from mangrove.core import runtime
from mangrove.core.shared_memory import Region, SharedMemory

PLACES = Region.GENERATIONS.value - 1  # the first is that of everything


class Topic(IntEnum):
    """What changes. A folder: its entries; a tree: a folder with all below it. Drivers: they are all started anew."""

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


class Generations:
    """The counts, in the memory that this process shares with the others."""

    def __init__(self, memory: SharedMemory | None = None) -> None:
        self._memory = runtime.get(SharedMemory) if memory is None else memory
        self._counts = self._memory.get_numbers(Region.GENERATIONS)
        self._processes = self._memory.processes

    def note(self, topic: Topic, key: Hashable = None) -> None:
        """Count a change; from any thread."""
        self._memory.add(self._counts, 1 + hash((topic, key)) % PLACES, 1)

    def note_all(self) -> None:
        """Count a change of everything: what a process that died has changed and not noted."""
        self._memory.add(self._counts, 0, 1)

    def read(self, topic: Topic, key: Hashable = None) -> int:
        """The present count."""
        start = (1 + hash((topic, key)) % PLACES) * self._processes
        counts, end = self._counts, self._processes
        return sum(counts[start : start + end]) + sum(counts[:end])

    def read_others(self, topic: Topic, key: Hashable = None) -> int:
        """The same without what this process noted."""
        place, column = 1 + hash((topic, key)) % PLACES, self._memory.column
        own = self._counts[place * self._processes + column] + self._counts[column]
        return self.read(topic, key) - own

    def read_said(self, topic: Topic) -> int:
        """How often another process said so, not because one died."""
        place = 1 + hash((topic, None)) % PLACES
        counts = self._memory.read(self._counts, place)
        return sum(counts) - counts[self._memory.column]


def note(topic: Topic, key: Hashable = None) -> None:
    """Count a change."""
    runtime.get(Generations).note(topic, key)


def read(topic: Topic, key: Hashable = None) -> int:
    """The present count, to be read before the thing that is remembered."""
    return runtime.get(Generations).read(topic, key)
