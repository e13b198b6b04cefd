"""Starting a state machine: Step Functions in the cloud, the runner of `mangrove.local` on one machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from mangrove.config import config
from mangrove.problems import Problem
from mangrove.records.tasks import Task
from mangrove.tasks.kinds import KINDS

Starter = Callable[[Task], None]
_starter: Starter | None = None
_hurrier: Starter | None = None


def use(starter: Starter, hurrier: Starter) -> None:
    """Start machines with `starter` from now on; `hurrier` puts one before those that wait for a worker."""
    global _starter, _hurrier
    _starter, _hurrier = starter, hurrier


def expedite(task: Task) -> None:
    """Let a task that was cancelled end now, also where it still waits for a worker."""
    if _hurrier is not None:
        _hurrier(task)


def start(task: Task, suffix: str = "") -> None:
    """Start the run `task.turn` of a task. Starting one twice is one run, unless a `suffix` tells them apart."""
    if _starter is not None:
        _starter(task)
        return
    if config().on_one_machine:
        return  # this machine is about to look for all that is left undone
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    machine = os.environ[f"MANGROVE_MACHINE_{KINDS[task.kind].machine.upper()}"]
    try:
        client = boto3.client("stepfunctions")
        name, given = f"{task.id}-{task.attempt}{suffix}", json.dumps({"tid": task.id})
        client.start_execution(stateMachineArn=machine, name=name, input=given)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            raise Problem("the task cannot be started") from error
    except BotoCoreError as error:
        raise Problem("the task cannot be started") from error
