"""The start of machines: by Step Functions in the cloud, by the runner on one machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from mangrove.cloud import step_functions
from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.records.tasks.model import Lease, Task, TaskView
from mangrove.tasks.core.registry import KINDS
from tests.servers.refusing import refusing_server
from tests.support.platforms import use_dispatcher
from tests.support.task_env import RecordingDispatcher

DEFINITION = {"StartAt": "S", "States": {"S": {"Type": "Succeed"}}}


def make_task(kind: str = "copy", attempt: int = 0) -> Task:
    view = TaskView("x" * 21, "copy", "ann", 0, 0, "", 0.0, None, None, 0, "")
    return Task(view.id, kind, 1, view, {}, {}, False, False, False, attempt, 0.0, Lease())


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Step Functions with the machine of transfers; a process without a data directory."""
    monkeypatch.delenv("MANGROVE_DATA", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with runtime.use(runtime.Runtime()), mock_aws():
        client = boto3.client("stepfunctions")
        role = "arn:aws:iam::123456789012:role/any"
        made = client.create_state_machine(name="transfer", definition=json.dumps(DEFINITION), roleArn=role)
        monkeypatch.setenv("MANGROVE_MACHINE_TRANSFER", made["stateMachineArn"])
        yield client


def list_executions(client: Any) -> list[str]:
    (machine,) = client.list_state_machines()["stateMachines"]
    executions = client.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"]
    return sorted(execution["name"] for execution in executions)


def test_in_the_cloud_every_run_of_a_task_is_one_execution(cloud: Any) -> None:
    for task in (make_task(), make_task(), make_task(attempt=1)):
        platform().dispatcher.start(task)
    platform().dispatcher.start(make_task(), "-7")
    assert list_executions(cloud) == [f"{'x' * 21}-{name}" for name in ("0", "0-7", "1")]
    platform().dispatcher.expedite(make_task())
    assert f"{'x' * 21}-0-stop" in list_executions(cloud)
    platform().dispatcher.expedite(replace(make_task(attempt=2), lease=Lease("t", 5.0)))  # its worker sees the mark
    assert len(list_executions(cloud)) == 4


def test_a_machine_that_nobody_named_is_a_problem_that_the_log_explains(
    cloud: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(step_functions, "log_warning", lambda message, **facts: said.append(facts["reason"]))
    monkeypatch.delenv("MANGROVE_MACHINE_TRANSFER")
    with pytest.raises(Problem, match="the task cannot be started"):
        platform().dispatcher.start(make_task())
    assert said == ["MANGROVE_MACHINE_TRANSFER is not set"]


def test_throttled_start_is_retried_then_left_to_sweep(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(step_functions, "log_warning", lambda message, **facts: said.append(facts["reason"]))
    monkeypatch.setattr(step_functions, "START_ATTEMPTS", 2)
    with refusing_server("ThrottlingException") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", server.url)
        platform().dispatcher.start(make_task())
    assert server.refusals == 2
    assert len(said) == 1 and "ThrottlingException" in said[0]


def test_a_machine_that_is_not_there_is_a_problem(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_MACHINE_TRANSFER", "arn:aws:states:us-east-1:123456789012:stateMachine:none")
    with pytest.raises(Problem, match="the task cannot be started"):
        platform().dispatcher.start(make_task())


def test_on_one_machine_tasks_wait_for_the_runner_and_then_go_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_DATA", "/nowhere")
    with runtime.use(runtime.Runtime()):
        platform().dispatcher.start(make_task())
        platform().dispatcher.expedite(make_task())
        runner = RecordingDispatcher()
        use_dispatcher(runner)
        platform().dispatcher.start(make_task(attempt=3))
        platform().dispatcher.expedite(make_task(attempt=4))
    assert ([task.attempt for task in runner.started], [task.attempt for task in runner.expedited]) == ([3], [4])


def test_every_kind_names_its_machine_and_its_setting() -> None:
    assert {kind.machine for kind in KINDS.values()} == {"transfer", "download", "decompress", "compress", "index"}
    listed = [kind.workers for kind in KINDS.values() if kind.is_listed]
    assert all(isinstance(setting, str) and setting.endswith("_task_threads_num") for setting in listed)
