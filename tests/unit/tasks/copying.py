"""Copies between real storages whose workers die at chosen points."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mangrove.records.tasks.model import Task
from mangrove.tasks.core import file_copy, partials
from mangrove.tasks.core.model import State
from tests.support.task_env import Before, Bucket, Disk, TaskEnv

PART = 5 << 20  # bytes; what S3 takes as the least
LARGE = bytes(range(256)) * (9 * (1 << 20) // 256)  # two parts
SUCCEEDED = (State.SUCCEEDED, "")
Side = Disk | Bucket


class Death(Exception):
    """A worker that dies in the middle of its work, as a function at its time limit."""


Death.__name__ = "Sandbox.Timedout"


def die_at(monkeypatch: pytest.MonkeyPatch, checkpoint: str, times: int = 1) -> None:
    """Workers die when they come to a place of `mangrove.core.checkpoints`, the first so many times."""
    left = [times]

    def pass_checkpoint(name: str) -> None:
        if name == checkpoint and left[0]:
            left[0] -= 1
            raise Death(name)

    for module in (file_copy, partials):
        monkeypatch.setattr(module, "pass_checkpoint", pass_checkpoint)


def look_between(task_env: TaskEnv, task: Task, look: Callable[[], None]) -> Before:
    """Checks the result of the first worker before the second one, which takes over, starts."""

    def before(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 1):
            look()
        task_env.restart_process()

    return before
