"""Memory that the processes of a service share, as each of them has it."""

from __future__ import annotations

import mmap

from mangrove.core.runtime import Runtime
from mangrove.core.shared_memory import SharedMemory, measure


def share_memory(processes: int) -> list[SharedMemory]:
    """One for each process."""
    memory = memoryview(mmap.mmap(-1, measure(processes)))
    return [SharedMemory(memory, processes, column) for column in range(processes)]


def share_runtimes(processes: int) -> list[Runtime]:
    """Runtimes with nothing but this memory."""
    runtimes = [Runtime() for _ in range(processes)]
    for own_runtime, memory in zip(runtimes, share_memory(processes), strict=True):
        own_runtime.put(SharedMemory, memory)
    return runtimes
