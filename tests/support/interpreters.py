"""Two interpreters of state machines under the same workers: ours, and moto's, which stands for Step Functions."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from mangrove.standalone.machines import MAX_HISTORY_EVENTS, ExecutionFailed, MachineDefinition
from tests.support.task_env import Work

EXECUTION_SECONDS = 120.0  # that an execution may take
LIMIT = 200  # calls of workers in one execution; nothing that ends comes near it


@dataclass
class Execution:
    """The record of an execution."""

    visited: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    output: dict[str, Any] | None = None  # None: it failed
    events: int = 0  # of the history; moto alone records it

    def call_worker(self, work: Work, name: str, value: dict[str, Any]) -> dict[str, Any]:
        """Call a worker and note the call."""
        assert len(self.calls) < LIMIT, "the machine goes round for ever"
        self.calls.append((name, copy.deepcopy(value)))
        return work(name, value)


Interpreter = Callable[[dict[str, Any], dict[str, Any], Work], Execution]
"""Runs a definition with an input; a worker that raises fails under the name of its exception."""


def run_here(definition: dict[str, Any], input: dict[str, Any], work: Work) -> Execution:
    """The runner of one machine; workers run in a thread."""
    execution = Execution()

    async def run_in_thread(name: str, value: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(execution.call_worker, work, name, value)

    async def note_wait(seconds: float) -> None:
        execution.waits.append(float(seconds))

    async def run() -> None:
        async with asyncio.timeout(EXECUTION_SECONDS):
            execution.output = await MachineDefinition(definition).run(
                input, run_in_thread, execution.visited, note_wait, MAX_HISTORY_EVENTS
            )

    with suppress(ExecutionFailed):
        asyncio.run(run())
    return execution


@contextmanager
def start_moto() -> Iterator[Interpreter]:
    """moto's interpreter, which does not wait either."""
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction

    current: list[tuple[Execution, Work]] = []

    class Lambda:
        def invoke(self, FunctionName: str, Payload: bytes, **_: Any) -> dict[str, Any]:
            execution, work = current[-1]
            try:
                answer: Any = execution.call_worker(work, FunctionName.rsplit(":", 1)[-1], json.loads(Payload))
            except Exception as error:
                failure = {"errorMessage": str(error), "errorType": type(error).__name__}
                return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": _stream(failure)}
            return {"StatusCode": 200, "Payload": _stream(answer)}

    def run(definition: dict[str, Any], input: dict[str, Any], work: Work) -> Execution:
        execution = Execution()
        current.append((execution, work))
        _execute(definition, input, execution)
        return execution

    waiting = SimpleNamespace(sleep=lambda seconds: current[-1][0].waits.append(float(seconds)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lambda_eval_utils, "boto_client_for", lambda **_: Lambda())
        patched.setattr(retrier_decl, "time", waiting)
        patched.setattr(WaitFunction, "_wait_interval", lambda self, env, wait_seconds: waiting.sleep(wait_seconds))
        yield run


def _execute(definition: dict[str, Any], input: dict[str, Any], execution: Execution) -> None:
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    backend = stepfunctions_parser_backends["123456789012"]["us-east-1"]
    text = json.dumps(definition).replace("${", "arn:aws:lambda:us-east-1:123456789012:function:").replace('}"', '"')
    machine = backend.create_state_machine(f"m{uuid4().hex}", text, "arn:aws:iam::123456789012:role/any")
    run = backend.start_execution(machine.arn, uuid4().hex, json.dumps(input))
    end = time.monotonic() + EXECUTION_SECONDS
    while run.exec_status == "RUNNING":
        if time.monotonic() > end:
            run.stop(datetime.now(UTC), None, None)
            pytest.fail("moto did not end")
        time.sleep(0.002)
    history = run.to_history_output()["events"]
    execution.events = len(history)
    assert execution.events <= MAX_HISTORY_EVENTS, "the history is too long for Step Functions"
    entered = [event.get("stateEnteredEventDetails") for event in history]
    execution.visited = [details["name"] for details in entered if details]
    if run.exec_status == "SUCCEEDED":
        execution.output = run.output


def _stream(value: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(value).encode())
