"""Starting tasks by the dispatcher of the platform."""

from __future__ import annotations

from mangrove.core.platform import platform
from mangrove.records.tasks.model import Task


def start(task: Task, suffix: str = "") -> None:
    """Start a run of a task; see `TaskDispatcher.start`."""
    platform().dispatcher.start(task, suffix)


def expedite(task: Task) -> None:
    """Let a cancelled task end now; see `TaskDispatcher.expedite`."""
    platform().dispatcher.expedite(task)


def forget(task: Task) -> None:
    """Note that a task was deleted before its first run; see `TaskDispatcher.forget`."""
    platform().dispatcher.forget(task)
