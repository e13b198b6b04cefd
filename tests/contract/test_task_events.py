"""The end of a task on the event bus of the stack: the follower of the stream, under Lambda's runtime client."""

from __future__ import annotations

import base64
from typing import Any

from tests.contract import test_events as samples
from tests.contract.event_queue import EventQueue
from tests.support import lambdas
from tests.support.policies import Policy


def read_image(cloud: lambdas.Cloud, id: str) -> dict[str, Any]:
    """Return the record of a task as the stream has it in JSON."""
    table = f"{lambdas.STACK}-{lambdas.KINDS['TaskRecords']}"
    item = cloud.client("dynamodb").get_item(TableName=table, Key={"id": {"S": id}}, ConsistentRead=True)["Item"]
    return {
        name: {"B": base64.b64encode(value["B"]).decode()} if "B" in value else value for name, value in item.items()
    }


def test_task_that_ends_is_announced_once_on_the_bus() -> None:
    with lambdas.deploy() as cloud:
        values = samples.Values()
        assert cloud.run_setup()["Status"] == "SUCCESS"
        function = cloud.get_function("TaskStreamFunction")
        function.policy = Policy("TaskStreamFunction", cloud.refs)
        queue = EventQueue(cloud, {"source": ["mangrove"], "detail-type": ["TaskEnded"]}, cloud.refs["Events"])
        for name in ("auth/login", "files/mkdir", "uploads/put", "tasks/undone"):
            samples.run(cloud, values, name)
        unfinished = read_image(cloud, values.known["tid"])
        function({"Records": [{"eventName": "INSERT", "dynamodb": {"NewImage": unfinished}}]})
        cloud.run_executions()
        ended = read_image(cloud, values.known["tid"])
        change = {"eventName": "MODIFY", "dynamodb": {"NewImage": ended, "OldImage": unfinished}}
        assert queue.take_details() == []
        function({"Records": [change]})
        (detail,) = queue.take_details()
        expected = {"id": values.known["tid"], "kind": ended["kind"]["S"], "state": "succeeded", "error": ""}
        assert {name: detail[name] for name in expected} == expected and detail["creator"] == "admin"
        function({"Records": [{"eventName": "MODIFY", "dynamodb": {"NewImage": ended, "OldImage": ended}}]})
        assert queue.take_details() == [], "a later change of the record is not another end"
