"""Figures of the processes of one machine, for its administrators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of a process of the service."""

    name: str
    bytes: int
    """Its proportional share of the physical memory (PSS)."""


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """The figures of one machine."""

    connections: int
    """Connections of HTTP clients."""
    event_streams: int
    sessions: int
    """Sessions that were used in the last ten minutes."""
    total_bytes: int
    """Of the disk with the data directory."""
    free_bytes: int
    processes: list[ProcessMemory]
    requests: int
    """Since the start of the service."""
    failed_requests: int
    """Requests among them with a code of 500 and above."""
    warnings: int
    """Lines in the log since the start of the service."""
    errors: int
