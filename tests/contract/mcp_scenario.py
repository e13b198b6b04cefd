"""The requests that a program sends to the MCP endpoint of a deployment."""

from __future__ import annotations

import json
from typing import Any

from tests.contract.scenarios import Person


def switch(admin: Person, value: str) -> None:
    """Switch MCP on or off."""
    body = json.dumps([{"key": "mcp_enabled", "value": value}])
    answer = json.loads(admin.raw("settings/save", {"body": body})["body"])
    assert answer["code"] == 200, answer


def run(admin: Person) -> None:
    """Do what a program does by MCP: it reads, writes, plans, shares and searches, and cancels a task."""
    switch(admin, "true")
    user = {"username": "agent", "password": "a long password", "base_path": "/", "role": 0, "permission": 0xFFFF}
    admin.gets("users/create", **user)
    owner = Person(admin.cloud).sign_in("agent", "a long password")
    token = owner.gets("auth/token_create", title="agent", protocols=["mcp"])["token"]
    person = Person(admin.cloud, token)

    def call(tool: str, **arguments: Any) -> Any:
        request = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request}
        answer = person.raw("mcp/tools_list", {"body": json.dumps(message)})
        return json.loads(answer["body"])["result"].get("structuredContent")

    call("make_folder", path="/files/agent")
    call("write_file", path="/files/agent/a", content="a")
    assert call("list_folder", path="/files/agent")["entries"][0]["name"] == "a"
    call("read_file", path="/files/agent/a")
    for tool, ends in (
        ("copy", {"source": "/files/agent/a", "target": "/files/agent/b"}),
        ("move", {"source": "/files/agent/b", "target": "/files/agent/c"}),
        ("remove", {"path": "/files/agent/c"}),
    ):
        call(tool, **ends, plan=call(tool, **ends)["plan"])
    call("share", path="/files/agent/a")
    call("search", keywords="agent")
    call("list_tasks")
    call("remove", path="/files/agent", plan=call("remove", path="/files/agent")["plan"])
    switch(admin, "false")
