"""The envelope as bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from mangrove.problems import Denied, TooMany
from mangrove.web.envelope import Reply, make_failure, ok


def read(reply: Reply) -> dict[str, Any]:
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    found: dict[str, Any] = json.loads(bytes(reply.body))
    assert list(found) == ["code", "message", "data"]
    return found


@pytest.mark.parametrize(
    ("data", "shown"),
    [(None, None), ([1], [1]), ({"a": "é"}, {"a": "é"}), (orjson.Fragment(b'{"a":1}'), {"a": 1}),
     (datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02T00:00:00Z"), (datetime(2020, 1, 2), "2020-01-02T00:00:00Z")],
)  # fmt: skip
def test_success_carries_the_data(data: Any, shown: Any) -> None:
    assert read(ok(data)) == {"code": 200, "message": "success", "data": shown}


def test_a_failure_carries_code_message_and_data() -> None:
    assert read(make_failure(Denied())) == {"code": 403, "message": "permission denied", "data": None}
    assert read(make_failure(TooMany("wait", data={"id": 1}))) == {"code": 429, "message": "wait", "data": {"id": 1}}
    assert read(make_failure(Denied("secret"), "******"))["message"] == "******"
