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

import httpx
import pytest

from mangrove.core import telemetry
from mangrove.core.telemetry import BYTES_RECEIVED, BYTES_SENT, REQUESTS, Readable, emit, log, name_invocation
from tests.servers import make_client
from tests.support.platforms import use_cloud


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


TRACED = """
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
def test_calls_of_a_traced_function_are_told_to_x_ray_and_its_answer_is_not(
    switch: str, s3: Callable[[], str], tmp_path: Path
) -> None:
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
        subprocess.run([sys.executable, "-c", TRACED], env=os.environ | environment, check=True)
        told = b""
        with suppress(BlockingIOError):  # all of it was sent before the process ended
            while True:
                told += daemon.recv(65536)
    assert (b"ListObjectsV2" in told, b"## handler" in told) == (switch == "on", switch == "on")
    assert b"secret answer" not in told
