"""The id of a request: in its answer, in the log, and in the log of its tasks."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from mangrove.core.telemetry import MAX_REQUEST_ID_LENGTH
from tests.contract.api.transfer_client import send
from tests.support.service import Client, Service
from tests.support.waiting import wait_until

ID_OF_MAX_LENGTH = "a-Z.0:_9" * (MAX_REQUEST_ID_LENGTH // 8)


def read_log(service: Service) -> list[dict[str, Any]]:
    """The lines that are complete."""
    text = (service.data.parent / f"{service.data.name}.log").read_text()
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines() if line.startswith("{")]


@pytest.mark.parametrize("path", ["/ping", "/api/me", "/none", "/d/none", "/dav/", "/docs", "/openlist/api/me", "/mcp"])
def test_every_answer_has_one_request_id(visitor: Client, path: str) -> None:
    first, second = (visitor.http.get(path).headers.get_list("x-request-id") for _ in range(2))
    assert len(first) == len(second) == 1
    assert first != second
    assert len(first[0]) == 16


@pytest.mark.parametrize("id", ["a", ID_OF_MAX_LENGTH])
def test_request_id_of_a_client_is_used(visitor: Client, id: str) -> None:
    assert visitor.http.get("/ping", headers={"x-request-id": id}).headers["x-request-id"] == id


@pytest.mark.parametrize("id", ["", f"{ID_OF_MAX_LENGTH}a", "a b", "a\tb", 'a"b', "ä", "a\x1b[2J"])
def test_request_id_with_other_characters_is_replaced(visitor: Client, id: str) -> None:
    answer = visitor.http.get("/ping", headers={b"x-request-id": id.encode()})
    if answer.status_code == 200:  # the parser refuses control characters
        assert answer.headers["x-request-id"] != id
    assert len(answer.headers["x-request-id"]) == 16


def test_refused_connection_has_a_request_id(visitor: Client) -> None:
    answer = visitor.http.get("/ping", headers={"a": "b" * (65 << 10)})
    assert answer.status_code == 431
    assert len(answer.headers["x-request-id"]) == 16


def test_request_and_its_task_are_logged_with_the_id(service: Service, admin: Client, folder: str) -> None:
    id = uuid4().hex
    row = send(admin, "put", f"{folder}/a.txt", b"x", **{"x-request-id": id})["data"]["task"]

    def find_lines() -> list[dict[str, Any]]:
        lines = [line for line in read_log(service) if line.get("facts", {}).get("request_id") == id]
        return lines if len(lines) == 2 else []

    wait_until(lambda: bool(find_lines()))
    ended = next(line for line in find_lines() if line["message"] == "task ended")
    assert ended["facts"] == {"tid": row["id"], "kind": "upload", "state": "succeeded", "request_id": id}
    assert not {"request_id", "token"} & set(admin.get("/api/task/upload/done")["data"][0])
