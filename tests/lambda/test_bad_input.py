"""Input that no API and no machine sends, and an AWS that refuses: a clear answer and line in the log, and an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from mangrove.standalone import template
from tests.contract.scenarios import Person
from tests.contract.task_scenarios import call_for_missing_tasks
from tests.support import lambdas
from tests.support.lambda_answers import read_lines
from tests.support.policies import FUNCTIONS
from tests.support.recorder import DENIED, THROTTLED, Right
from tests.support.runtime_api import Function

APIS = [name for name, properties in FUNCTIONS.items() if properties["CodeUri"].startswith("functions/api/")]
FOLDER = "/files/bad input"  # of what these tests store
MIN_RETRIES = 4  # of a throttled call, by botocore


@pytest.fixture
def admin(cloud: lambdas.Cloud) -> Iterator[Person]:
    """The administrator; afterwards nothing is refused any more."""
    admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
    yield admin
    for name in FUNCTIONS:
        cloud.get_function(name).refuse = None
    admin.asks("files/remove", dir="/files", names=[FOLDER.rpartition("/")[2]])


def refuse(function: Function, error: str, *services: str) -> list[set[Right]]:
    """Have the calls of these services refused; those that were."""
    refused: list[set[Right]] = []

    def judge(needs: set[Right]) -> str:
        if any(action.startswith(services) for action, _ in needs):
            refused.append(needs)
            return error
        return ""

    function.refuse = judge
    return refused


def find_warnings(function: Function) -> list[str]:
    return [line["message"] for line in read_lines(function) if line.get("level") in ("WARNING", "ERROR")]


@pytest.mark.parametrize("name", APIS)
def test_an_event_that_is_none_of_the_api_is_refused_by_every_function(cloud: lambdas.Cloud, name: str) -> None:
    function = cloud.get_function(name)
    for event in ({"tid": "x"}, {"Records": [{"body": "x"}]}, {"version": "1.0", "httpMethod": "GET"}):
        answer = function(event)
        assert answer["statusCode"] == 400
        assert json.loads(answer["body"])["message"] == "this is no event of the HTTP API"
    assert "Traceback" not in function.read_log()


def test_workers_end_for_inputs_that_name_no_task(cloud: lambdas.Cloud) -> None:
    call_for_missing_tasks(Person(cloud))
    for event in ({}, {"tid": 7}, {"tid": "x" * 300}, {"tid": {"S": "x"}}):
        with pytest.raises(lambdas.FunctionError) as caught:
            cloud.get_function("TransferMove")(event)
        assert caught.value.kind == "Superseded"
        assert cloud.get_function("TransferSettle")(event)["more"] is False


def test_a_task_that_is_done_is_not_done_again(admin: Person) -> None:
    id = admin.sends(f"{FOLDER}/forged.txt", b"once", as_task="true")["data"]["task"]["id"]
    admin.cloud.run_executions()
    for name in ("TransferPlan", "TransferMove", "TransferSettle"):
        function = admin.cloud.get_function(name)
        function.calls.clear()
        assert function({"tid": id, "failure": {"Error": "Boom"}})["more"] is False
        assert not [call for call in function.calls if call.operation == "s3:PUT"]
    assert admin.read_outcome("upload", id) == ("succeeded", "")


def test_throttled_records_give_clear_answer_then_recover(admin: Person) -> None:
    function = admin.cloud.get_function("FilesFunction")
    refused = refuse(function, THROTTLED, "dynamodb:")
    answer = admin.asks("files/list", path="/files")
    assert (answer["code"], answer["problem"]) == (500, "RecordsThrottled")
    assert len(refused) > MIN_RETRIES
    function.refuse = None
    assert admin.asks("files/list", path="/files")["code"] == 200
    assert "Traceback" not in json.dumps(answer)


def test_worker_with_throttled_records_ends_with_retryable_error(admin: Person) -> None:
    worker = admin.cloud.get_function("TransferMove")
    refuse(worker, THROTTLED, "dynamodb:")
    with pytest.raises(lambdas.FunctionError) as caught:
        worker({"tid": "x" * 21})
    assert caught.value.kind == "RecordsThrottled"
    machine = json.loads((template.ROOT / "state_machines" / "transfer.asl.json").read_text())
    retries = {word for rule in machine["States"]["Move"]["Retry"] for word in rule["ErrorEquals"]}
    assert caught.value.kind in retries


def test_a_start_that_is_denied_is_answered_and_leaves_no_task(admin: Person) -> None:
    function = admin.cloud.get_function("UploadsFunction")
    refused = refuse(function, DENIED, "states:")
    answer = admin.sends(f"{FOLDER}/denied.txt", b"x", as_task="true")
    assert (answer["code"], answer["message"]) == (500, "the task cannot be started")
    assert refused and "the task cannot be started" in find_warnings(function)
    assert admin.tasks("upload", "undone") == []


def test_throttled_start_is_logged_and_left_to_sweep(admin: Person) -> None:
    function = admin.cloud.get_function("UploadsFunction")
    refused = refuse(function, THROTTLED, "states:")
    id = admin.sends(f"{FOLDER}/throttled.txt", b"x", as_task="true")["data"]["task"]["id"]
    assert len(refused) > 1, "it was tried again"
    assert "task could not be started; the sweep retries" in find_warnings(function)
    assert [row["id"] for row in admin.tasks("upload", "undone")] == [id]
    admin.tasks("upload", "delete", tid=id)
    admin.cloud.run_executions()


def test_a_secret_that_cannot_be_read_is_told_and_read_when_it_can_be(admin: Person) -> None:
    function = admin.cloud.get_function("MetasFunction")
    function.close()
    refuse(function, DENIED, "secretsmanager:")
    answer = admin.asks("metas/list")
    assert (answer["code"], answer["message"]) == (500, "the encryption key cannot be read")
    assert "the encryption key cannot be read" in find_warnings(function)
    assert lambdas.ADMIN_PASSWORD not in function.read_log()
    function.refuse = None
    assert admin.asks("metas/list")["code"] == 200


@pytest.fixture
def renamed(admin: Person) -> Iterator[Callable[[str], Function]]:
    """Restart a function with other names of tables: `users=nowhere`, or `users=` for none."""
    function = admin.cloud.get_function("MetasFunction")
    environment = function.environment

    def restart(table: str) -> Function:
        kind = table.partition("=")[0]
        pairs = [pair for pair in environment["MANGROVE_TABLES"].split(",") if not pair.startswith(f"{kind}=")]
        tables = ",".join([*pairs, table] if table.partition("=")[2] else pairs)
        function.close()
        function.environment = {**environment, "MANGROVE_TABLES": tables}
        return function

    yield restart
    function.close()
    function.environment = environment


def test_a_table_that_is_not_there_is_an_answer_and_a_line_in_the_log(
    admin: Person, renamed: Callable[[str], Function]
) -> None:
    function = renamed("users=nowhere")
    function.policy = None  # IAM would not tell
    answer = admin.asks("metas/list")
    assert (answer["code"], answer["problem"]) == (500, "RecordsUnavailable")
    assert "records engine refuses the service" in find_warnings(function)


def test_a_table_that_nobody_named_ends_the_start_with_its_kind(renamed: Callable[[str], Function]) -> None:
    with pytest.raises(lambdas.FunctionError) as caught:
        renamed("users=")({})
    assert caught.value.kind.endswith("ValueError")
    assert caught.value.message == "MANGROVE_TABLES names no table of users"
