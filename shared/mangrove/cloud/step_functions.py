"""Tasks as executions of Step Functions.

There is no queue that is fair to the owners of tasks: every execution starts immediately. Its steps wait for a slot, by
the settings (`tasks.core.leases`) and among the account's functions (`Lambda.TooManyRequestsException`), for about an
hour.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mangrove.core import aws
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_warning

if TYPE_CHECKING:
    from mangrove.records.tasks.model import Task

START_ATTEMPTS = 5  # of one execution: with jitter, about eight seconds
THROTTLING_CODES = ("ThrottlingException", "TooManyRequestsException")
REFUSED = "the task cannot be started"


class StepFunctions:
    """Starts executions. Its client is made at the first start of a task."""

    is_remote = False

    def start(self, task: Task, suffix: str = "") -> None:
        """Start the execution of a run; see `TaskDispatcher.start`."""
        from mangrove.tasks.core.registry import find_machine

        variable = f"MANGROVE_MACHINE_{find_machine(task).upper()}"
        machine = os.environ.get(variable)
        if not machine:
            log_warning("the task cannot be started", tid=task.id, reason=f"{variable} is not set")
            raise Problem(REFUSED)
        self._start_execution(machine, f"{task.id}-{task.attempt}{suffix}", task.id)

    def expedite(self, task: Task) -> None:
        """End a cancelled task now by another execution, which needs no slot."""
        if task.lease.until <= 0:
            with suppress(Problem):  # it ends when it would have started
                self.start(task, "-stop")

    def forget(self, task: Task) -> None:
        """Do nothing: the execution finds no task and ends."""

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        retries = {"mode": "standard", "total_max_attempts": START_ATTEMPTS}
        return aws.create_client("stepfunctions", config=Config(retries=retries))

    def _start_execution(self, machine: str, name: str, task_id: str) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        text = json.dumps({"tid": task_id})
        try:
            self._client.start_execution(stateMachineArn=machine, name=name, input=text)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in THROTTLING_CODES:
                log_warning("task could not be started; the sweep retries", tid=task_id, reason=str(error))
            elif code != "ExecutionAlreadyExists":
                log_warning("the task cannot be started", tid=task_id, reason=str(error))
                raise Problem(REFUSED) from error
        except BotoCoreError as error:
            log_warning("the task cannot be started", tid=task_id, reason=str(error))
            raise Problem(REFUSED) from error
