"""Events that no HTTP API sends are answered, and never with a traceback."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.api.site.app import handler
from mangrove.core import telemetry
from mangrove.core.telemetry import log
from mangrove.web import lambda_handler
from mangrove.web.lambda_handler import BadEvent, check_event
from tests.support.platforms import use_cloud

EVENTS = Path(__file__).resolve().parents[3] / "events"
PING = {
    "version": "2.0", "routeKey": "GET /ping", "rawPath": "/ping", "rawQueryString": "", "headers": {"host": "x"},
    "requestContext": {"http": {"method": "GET", "path": "/ping", "sourceIp": "192.0.2.1"}, "stage": "$default"},
    "isBase64Encoded": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """A loop for the adapter, as a function has one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def change(**values: Any) -> dict[str, Any]:
    return copy.deepcopy(PING) | values


BAD = {
    "nothing": {}, "no object": [], "none": None, "a text": "tid", "a task": {"tid": "x"},
    "a REST API": {"resource": "/ping", "httpMethod": "GET", "path": "/ping", "headers": {}, "requestContext": {}},
    "a load balancer": {"requestContext": {"elb": {}}, "httpMethod": "GET", "path": "/", "headers": {}},
    "a queue": {"Records": [{"eventSource": "aws:sqs", "body": "x"}]},
    "another version": change(version="1.0"),
    "no context": change(requestContext=None),
    "a context of another kind": change(requestContext={"connectionId": "x"}),
    "no method": change(requestContext={"http": {"sourceIp": "192.0.2.1"}}),
    "a path that is no text": change(rawPath=7),
    "headers in a list": change(headers=["host"]),
    "a header that is no text": change(headers={"host": 1}),
    "a body that is no text": change(body={"a": 1}),
    "a body that is no base64": change(body="abcde", isBase64Encoded=True),
    "a port that is no number": change(headers={"host": "x:y"}),
    "a query that cannot be encoded": change(rawQueryString="\ud800"),
}  # fmt: skip


@pytest.mark.parametrize("event", BAD.values(), ids=BAD)
def test_what_no_http_api_sends_is_refused_with_a_reason_in_the_log(
    event: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    for name in ("log_warning", "log_exception"):
        monkeypatch.setattr(lambda_handler, name, lambda message, **_: said.append(message))
    answer = handler(event, None)
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"]) == {"code": 400, "message": "this is no event of the HTTP API", "data": None}
    assert len(said) == 1


def test_a_request_is_answered() -> None:
    assert handler(PING, None)["statusCode"] == 200


def test_request_is_counted_by_code_and_logged_by_ids(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "stack")
    use_cloud(is_function=True)
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(telemetry, "log_event", lambda message, **facts: seen.append(facts | log.get_current_keys()))
    context = SimpleNamespace(function_name="site", aws_request_id="one", get_remaining_time_in_millis=lambda: 30_000)
    missing = change(rawPath="/api/none", headers={"host": "x", "content-length": "12"})
    missing["requestContext"]["http"]["path"] = "/api/none"
    missing["requestContext"]["requestId"] = "of the API"
    assert json.loads(handler(missing, context)["body"])["code"] == 404
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["code"] for line in lines if "Requests" in line] == ["404"]
    (moved,) = (line for line in lines if "BytesSent" in line)
    assert moved["BytesReceived"] == [12.0] and moved["BytesSent"][0] > 20
    (facts,) = seen
    assert (facts["function"], facts["request_id"], facts["correlation_id"]) == ("site", "one", "of the API")


def test_every_sample_of_a_route_is_an_event() -> None:
    samples = [json.loads(path.read_text()) for path in EVENTS.rglob("*.json")]
    requests = [sample for sample in samples if isinstance(sample, dict) and "rawPath" in sample]
    assert len(requests) > 50
    for sample in requests:
        check_event(sample)
    with pytest.raises(BadEvent):
        check_event({})
