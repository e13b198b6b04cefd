"""The form in which a package of `mangrove.tasks` declares its state machine and its kinds of tasks.

Worker entry points, the queue, the dispatcher and the interface read the declarations through `registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mangrove.identity.rights import Right
from mangrove.tasks.core.specs import Schema


@dataclass(frozen=True, slots=True)
class Step:
    """A state of a machine that a worker function does the work of."""

    state: str
    """The name of the state, and of the worker's file in lower case."""
    function: str
    """`module:name` inside the package: `async (run) -> bool`, `sharing.PartWork` for the state Part, or
    `async (run, state)` for Settle."""
    seconds: str = ""
    """`module:name` of a constant: the time of one step on one machine, where it is not the usual one."""
    describe: str = ""
    """`module:name` of a function: what the machine is told besides `more`."""
    attempts: int = 4
    """Retries after the storage or the function did not answer."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A state machine: its models and the steps that workers do."""

    name: str
    """The name of the package, of the definition in `state_machines/` and of the folder in `functions/workers/`."""
    schema: Schema[Any, Any]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of tasks as users ask for it and see it."""

    name: str
    machine: str
    """The machine that does the work, unless the specification names another one."""
    workers: str | int
    """The setting with how many run at once, or that number on one machine."""
    right: Right = Right.READ
    """The right that its owner needs at each step."""
    is_listed: bool = True
    """True if users see its tasks."""
    is_staged: bool = False
    """True if it carries bytes that are in staging, which an upload or another task has brought."""
