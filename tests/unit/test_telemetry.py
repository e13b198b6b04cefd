"""Log lines for people: readable, and nothing in them commands the terminal. In the cloud they name the invocation, and
metrics are lines of their own."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from mangrove.core import telemetry
from mangrove.core.telemetry import (
    BYTES_RECEIVED,
    BYTES_SENT,
    REQUESTS,
    AccessLog,
    ReadableFormatter,
    emit,
    log,
    name_invocation,
    use_request_id,
)
from tests.servers import make_client
from tests.support.platforms import use_cloud
from tests.support.waiting import wait_until


def line(message: str, **facts: object) -> str:
    record = logging.LogRecord("mangrove", logging.INFO, "", 0, message, (), None)
    record.facts = facts
    return ReadableFormatter().format(record)


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
    use_cloud(is_function=True)
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
    assert {metric["Unit"] for metric in directive["Metrics"]} == {"Bytes"}
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


TRACE_SCRIPT = """
from types import SimpleNamespace
import boto3
from mangrove.core.telemetry import name_invocation

def handler(event, context):
    boto3.client("s3").list_objects_v2(Bucket="a-bucket")
    return {"body": "a secret answer"}

name_invocation(handler)({}, SimpleNamespace(function_name="f", aws_request_id="r"))
"""


@pytest.mark.long
@pytest.mark.parametrize("switch", ["on", "off"])
def test_traced_calls_are_reported_to_xray_without_answer(switch: str, s3: Callable[[], str], tmp_path: Path) -> None:
    make_client("s3", s3()).create_bucket(Bucket="a-bucket")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.setblocking(False)
        environment = {
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "AWS_ENDPOINT_URL": s3(),
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
            "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
            "LAMBDA_TASK_ROOT": str(tmp_path),
            "MANGROVE_TRACING": switch,
        }
        subprocess.run([sys.executable, "-c", TRACE_SCRIPT], env=os.environ | environment, check=True)
        told = b""
        with suppress(BlockingIOError):  # all of it was sent before the process ended
            while True:
                told += daemon.recv(65536)
    assert (b"ListObjectsV2" in told, b"## handler" in told) == (switch == "on", switch == "on")
    assert b"secret answer" not in told


FACTS = {"method": "GET", "path": "/é\n\x1b[2J", "status": 200, "ms": 0.1}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def opened(file: Path) -> AccessLog:
    log = AccessLog()
    log.open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    return log


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_has_the_form_of_the_logger_s(opened: AccessLog, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened.log(FACTS, is_detail=False)
    wait_until(lambda: bool(read(file)))
    AccessLog().log(FACTS, is_detail=False)
    (line,) = read(file)
    (record,) = caplog.records
    formatted = json.loads(telemetry.log.registered_formatter.format(record))
    assert line == formatted | {"timestamp": line["timestamp"]}
    assert list(line) == list(formatted)
    assert len(line["timestamp"]) == len(formatted["timestamp"])


def test_lines_stay_in_order_and_closing_writes_them_all(opened: AccessLog, file: Path) -> None:
    for number in range(5000):
        opened.log({"number": number}, is_detail=False)
    opened.close()
    assert [line["facts"]["number"] for line in read(file)] == list(range(5000))


@pytest.mark.parametrize("log_format", telemetry.LOG_FORMATS)
def test_log_format_applies_to_events_and_requests(
    opened: AccessLog, file: Path, log_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = telemetry.log.registered_handler
    formatter = handler.formatter
    try:
        telemetry.set_format(log_format)
        with use_request_id("r1"):
            telemetry.log_event("task ended", tid="t1")
        event = handler.format(caplog.records[0])
        opened.log(FACTS, is_detail=False)
        opened.close()
    finally:
        handler.setFormatter(formatter)
    (request,) = file.read_text().splitlines()
    if log_format == "json":
        assert json.loads(event)["facts"] == {"tid": "t1", "request_id": "r1"}
        assert json.loads(request)["service"] == json.loads(event)["service"] == "mangrove"
    else:
        assert event.endswith(" INFO task ended tid=t1 request_id=r1")
        assert request.endswith(r" INFO request method=GET path=/é\n\x1b[2J status=200 ms=0.1")


def test_polling_is_a_detail(opened: AccessLog, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.log({"number": 1}, is_detail=True)
    opened.log({"number": 2}, is_detail=False)
    level = telemetry.log.log_level
    telemetry.log.setLevel("DEBUG")
    try:
        opened.log({"number": 3}, is_detail=True)
        telemetry.log.setLevel("WARNING")
        opened.log({"number": 4}, is_detail=False)
    finally:
        telemetry.log.setLevel(level)
    opened.close()
    assert [(line["facts"]["number"], line["level"]) for line in read(file)] == [(2, "INFO"), (3, "DEBUG")]


def test_where_nobody_takes_lines_the_oldest_give_way_and_that_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "MAX_WAITING_LINES", 10)
    monkeypatch.setattr(telemetry, "ACCESS_LOG_INTERVAL_SECONDS", 60)
    opened = AccessLog()
    opened.open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    for number in range(25):
        opened.log({"number": number}, is_detail=False)
    opened.close()
    *lines, last = read(file)
    assert [line["facts"]["number"] for line in lines] == list(range(15, 25))
    assert (last["level"], last["facts"]) == ("WARNING", {"lost lines": 15})


def test_a_reader_that_has_gone_breaks_nothing() -> None:
    reader, writer = os.pipe()
    opened = AccessLog()
    opened.open(writer)
    os.close(reader)
    opened.log(FACTS, is_detail=False)
    opened.close()
    os.close(writer)


def test_a_pipe_gets_whole_lines_whoever_else_writes_to_it() -> None:
    reader, writer = os.pipe()
    logs = [AccessLog(), AccessLog()]
    count, received = 2000, bytearray()
    for number, access_log in enumerate(logs):
        access_log.open(writer)
        for line in range(count):
            access_log.log({"log": number, "number": line, "text": "x" * (line % 700)}, is_detail=False)
    while received.count(b"\n") < 2 * count:
        received += os.read(reader, 1 << 20)
    for access_log in logs:
        access_log.close()
    lines = [json.loads(line)["facts"] for line in received.splitlines()]
    for number in range(len(logs)):
        assert [line["number"] for line in lines if line["log"] == number] == list(range(count))
    os.close(reader)
    os.close(writer)
