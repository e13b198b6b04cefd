"""Starting a state machine: Step Functions in the cloud, the runner of `mangrove.standalone` on one machine.

The runner shares its workers fairly between the owners of tasks. In the cloud there is no queue to be fair: every
execution starts at once, and its steps wait until there is room: by the settings (`tasks.slots`), and among the
account's functions (`Lambda.TooManyRequestsException`), for about an hour.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cached_property
from typing import Any

from mangrove.core import aws, runtime
from mangrove.core.config import config
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_warning
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.registry import find_machine

ATTEMPTS = 5  # to start an execution: with jitter, about eight seconds
THROTTLES = ("ThrottlingException", "TooManyRequestsException")
REFUSED = "the task cannot be started"


class TaskDispatcher:
    """Starts executions of Step Functions. On one machine the runner takes this slot of the runtime; until it does,
    tasks wait for it in the records."""

    def start(self, task: Task, suffix: str = "") -> None:
        """Start the run `task.attempt`. Starting it twice is one run, unless a `suffix` makes two of it. Problem when
        that is not possible; where there were too many starts, the sweep repeats it."""
        if not config().on_one_machine:
            _start_execution(task, suffix)

    def expedite(self, task: Task) -> None:
        """Let a task that was cancelled end now, also where it still waits for a worker: in the cloud that is another
        execution, which needs no room."""
        if not config().on_one_machine and task.lease.until <= 0:
            with suppress(Problem):  # it ends when it would have begun
                _start_execution(task, "-stop")

    def forget(self, task: Task) -> None:
        """Note that a task was deleted before its first run."""


def start(task: Task, suffix: str = "") -> None:
    """Start a task's machine; see `TaskDispatcher.start`."""
    runtime.get(TaskDispatcher).start(task, suffix)


def expedite(task: Task) -> None:
    """Let a cancelled task end now; see `TaskDispatcher.expedite`."""
    runtime.get(TaskDispatcher).expedite(task)


def forget(task: Task) -> None:
    """Note that a task was deleted before its first run; see `TaskDispatcher.forget`."""
    runtime.get(TaskDispatcher).forget(task)


class StepFunctions:
    """The client of this process, made at the first start of a task."""

    @cached_property
    def client(self) -> Any:
        from botocore.config import Config

        return aws.create_client(
            "stepfunctions", config=Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
        )


def _start_execution(task: Task, suffix: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    variable = f"MANGROVE_MACHINE_{find_machine(task).upper()}"
    machine = os.environ.get(variable)
    if not machine:
        log_warning("the task cannot be started", tid=task.id, reason=f"{variable} is not set")
        raise Problem(REFUSED)
    name, given = f"{task.id}-{task.attempt}{suffix}", json.dumps({"tid": task.id})
    try:
        runtime.get(StepFunctions).client.start_execution(stateMachineArn=machine, name=name, input=given)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in THROTTLES:
            log_warning("the task is started later, by the sweep", tid=task.id, reason=str(error))
        elif code != "ExecutionAlreadyExists":
            log_warning("the task cannot be started", tid=task.id, reason=str(error))
            raise Problem(REFUSED) from error
    except BotoCoreError as error:
        log_warning("the task cannot be started", tid=task.id, reason=str(error))
        raise Problem(REFUSED) from error
