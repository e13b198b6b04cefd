"""Log lines for people: readable, and nothing in them commands the terminal. In the cloud they name the invocation, and
metrics are lines of their own."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace

import httpx
import pytest

from mangrove import runtime, telemetry
from mangrove.config import Config, config
from mangrove.telemetry import BYTES_RECEIVED, BYTES_SENT, REQUESTS, Readable, emit, log, name_invocation


def line(message: str, **facts: object) -> str:
    record = logging.LogRecord("mangrove", logging.INFO, "", 0, message, (), None)
    record.facts = facts
    return Readable().format(record)


def test_a_line_names_its_facts() -> None:
    assert line("request", method="GET", path="/ping").endswith(" INFO request method=GET path=/ping")


def test_control_characters_are_shown_and_not_obeyed() -> None:
    shown = line("request", path="/\x1b[2J\nforged")
    assert shown.isprintable()
    assert shown.endswith(r"path=/\x1b[2J\nforged")


def test_addresses_that_are_fetched_are_not_logged_with_their_signatures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # as Lambda sets it for logs in JSON
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.handle_request).start()
        httpx.get(f"http://127.0.0.1:{server.server_port}/?X-Amz-Signature=secret")
    assert "secret" not in caplog.text


def test_a_metric_is_a_line_that_cloudwatch_reads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "stack")
    runtime.put(Config, replace(config(), is_function=True))
    emit({REQUESTS: 1}, "404")
    emit({BYTES_RECEIVED: 0, BYTES_SENT: 7})
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    (directive,) = first["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == telemetry.NAMESPACE
    assert {tuple(sorted(names)) for names in directive["Dimensions"]} == {("code", "service")}
    assert directive["Metrics"] == [{"Name": "Requests", "Unit": "Count"}]
    assert (first["service"], first["code"], first["Requests"]) == ("stack", "404", [1.0])
    (directive,) = second["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["service"]]
    assert {one["Unit"] for one in directive["Metrics"]} == {"Bytes"}
    assert (second["BytesReceived"], second["BytesSent"]) == ([0.0], [7.0])


def test_one_machine_writes_no_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    emit({REQUESTS: 1}, "200")
    assert capsys.readouterr().out == ""


def test_lines_of_a_function_name_its_invocation() -> None:
    named = name_invocation(lambda event, context: dict(log.get_current_keys()))
    context = SimpleNamespace(function_name="files", aws_request_id="one")
    keys = named({"requestContext": {"requestId": "of the API"}}, context)
    assert (keys["function"], keys["request_id"], keys["correlation_id"]) == ("files", "one", "of the API")
    assert named({"tid": "x"}, context)["correlation_id"] is None
    assert "function" not in named({}, None)
