"""The requests that a program sends to the MCP endpoint of a deployment."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any
from unittest.mock import patch

from mangrove.core.deadlines import TASK_REQUEST_MARGIN_SECONDS
from tests.contract.index_scenarios import MANIFEST
from tests.contract.scenarios import Person
from tests.contract.worker_faults import once, without_machine
from tests.support import runtime_api

SHORT_SECONDS = 1.0  # of work, after which a request leaves the rest to a task


def switch(admin: Person, value: str) -> None:
    """Switch MCP on or off."""
    body = json.dumps([{"key": "mcp_enabled", "value": value}])
    answer = json.loads(admin.raw("settings/save", {"body": body})["body"])
    assert answer["code"] == 200, answer


def run(admin: Person) -> None:
    """Do what a program does by MCP: it reads, writes, plans, shares and searches, and cancels a task."""
    switch(admin, "true")
    user: dict[str, Any] = {
        "username": "agent",
        "password": "a long password",
        "base_path": "/",
        "role": 0,
        "permission": 0xFFFF,
    }
    admin.gets("users/create", **user)
    owner = Person(admin.cloud).sign_in("agent", "a long password")
    token = owner.gets("auth/token_create", title="agent", protocols=["mcp"])["token"]
    person = Person(admin.cloud, token)

    def call(tool: str, **arguments: Any) -> Any:
        request = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request}
        answer = person.raw("mcp/tools_list", {"body": json.dumps(message)})
        result = json.loads(answer["body"])["result"]
        return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]

    def call_planned(tool: str, **ends: Any) -> Any:
        plan = call(tool, **ends)
        assert "plan" in plan, plan
        return call(tool, **ends, plan=plan["plan"])

    call("make_folder", path="/files/agent")
    call("write_file", path="/files/agent/a", content="a")
    assert call("list_folder", path="/files/agent")["entries"][0]["name"] == "a"
    call("read_file", path="/files/agent/a")
    for tool, ends in (
        ("copy", {"source": "/files/agent/a", "target": "/files/agent/b"}),
        ("move", {"source": "/files/agent/b", "target": "/files/agent/c"}),
        ("remove", {"path": "/files/agent/c"}),
    ):
        call_planned(tool, **ends)
    call("share", path="/files/agent/a")
    call("search", keywords="agent")
    call("list_tasks")
    call("make_folder", path="/pair/agent")  # two folders under one name, which is locked
    call("make_folder", path="/texts/agent")  # a storage that keeps its entries in its options
    with without_machine(admin, "TransferMachine"):
        assert "cannot be started" in call_planned("copy", source="/outside/whole", target="/files/agent/refused")
    (task,) = call_planned("copy", source="/outside/whole", target="/files/agent/whole")["tasks"]
    assert call("list_tasks")["tasks"][0]["id"] == task["id"]
    call("cancel_task", **task)
    rebuild_index(admin, call)
    remove_slowly(admin, call, call_planned)
    admin.cloud.run_executions()
    switch(admin, "false")


def rebuild_index(admin: Person, call: Any) -> None:
    """A search that finds a damaged index has it built again."""
    admin.cloud.client("s3").put_object(Bucket=admin.cloud.refs["Index"], Key=MANIFEST, Body=b"{}")
    call("search", path="/files", keywords="agent")
    admin.cloud.run_executions()


def remove_slowly(admin: Person, call: Any, call_planned: Any) -> None:
    """Remove a folder for which a request has no time."""
    worker = admin.cloud.get_function("McpFunction")
    wait = partial(time.sleep, SHORT_SECONDS + 1)
    call("make_folder", path="/files/agent/sub")
    call("write_file", path="/files/agent/sub/b", content="b")
    with patch.object(runtime_api, "DEADLINE_SECONDS", TASK_REQUEST_MARGIN_SECONDS + SHORT_SECONDS):
        with without_machine(admin, "RemoveMachine"):
            once(worker, "b", wait, right="s3:DeleteObject")
            assert "cannot be started" in call_planned("remove", path="/files/agent/sub")
        once(worker, "a", wait, right="s3:DeleteObject")
        removal = call_planned("remove", path="/files/agent")
    assert "tasks" in removal and removal["tasks"][0]["kind"] == "move", removal
