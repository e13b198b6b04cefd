"""The set-up answers CloudFormation whatever happens, in time, with a reason that a person can read."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from functions.workers.setup import app
from mangrove.standalone import template
from tests import servers
from tests.support import lambdas

ROLE = {"AWS_ACCESS_KEY_ID": "role", "AWS_SECRET_ACCESS_KEY": "role", "AWS_DEFAULT_REGION": "us-east-1"}
EVENT = {"StackId": "s", "RequestId": "r", "LogicalResourceId": "Setup"}
IN_A_PROCESS = """
import json, sys
from types import SimpleNamespace
from functions.workers.setup import app
context = SimpleNamespace(log_group_name="g", aws_request_id="i", get_remaining_time_in_millis=lambda: 60_000)
app.handler(json.loads(sys.argv[1]), context)
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with servers.moto_s3() as address:
        yield address


@pytest.fixture
def role(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in ROLE.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def run_here(seconds: float = 60, **request: Any) -> dict[str, Any]:
    """Its answer, when it has so many seconds."""
    context = SimpleNamespace(
        log_group_name="group", aws_request_id="id", get_remaining_time_in_millis=lambda: seconds * 1000
    )
    with lambdas.listen_as_cloudformation() as (url, answers):
        app.handler(EVENT | {"ResponseURL": url} | request, context)
        return answers.get(timeout=120)


def run_in_a_process(**environment: str) -> dict[str, Any]:
    """Its answer when it runs first in its process, as it does in a function."""
    with lambdas.listen_as_cloudformation() as (url, answers):
        event = EVENT | {"RequestType": "Create", "ResponseURL": url}
        subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS, json.dumps(event)],
            cwd=template.ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(template.ROOT / "shared")} | ROLE | environment,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return answers.get(timeout=120)


def test_a_stack_that_is_removed_leaves_its_own_buckets_empty(aws: str, role: pytest.MonkeyPatch) -> None:
    store, buckets = servers.make_client("s3", aws), [servers.make_bucket(aws) for _ in range(2)]
    store.put_bucket_versioning(Bucket=buckets[0], VersioningConfiguration={"Status": "Enabled"})
    for bucket in buckets:
        for key in ("a", "a", "b/c", "b/c", "d"):
            store.put_object(Bucket=bucket, Key=key, Body=b"x")
        store.delete_object(Bucket=bucket, Key="d")
    role.setenv("AWS_ENDPOINT_URL_S3", aws)
    for variable, bucket in zip(app.EMPTIED, buckets, strict=True):
        role.setenv(variable, bucket)
    answer = run_here(RequestType="Delete")
    assert (answer["Status"], answer["Reason"]) == ("SUCCESS", "")
    for bucket in buckets:
        versions = store.list_object_versions(Bucket=bucket)
        assert not versions.get("Versions") and not versions.get("DeleteMarkers")
        store.delete_bucket(Bucket=bucket)
    assert run_here(RequestType="Delete")["Reason"].startswith("NoSuchBucket: ")


def test_what_takes_too_long_is_told_before_the_function_ends(role: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        role.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{silent.getsockname()[1]}")
        role.setenv("AWS_MAX_ATTEMPTS", "1")
        for variable in app.EMPTIED:
            role.setenv(variable, "bucket")
        answer = run_here(app.SPARE_SECONDS + 0.5, RequestType="Delete")
    assert answer["Status"] == "FAILED"
    assert "takes longer than its function may run" in answer["Reason"]
    assert answer["Reason"].endswith("(log group group, request id)")


def test_a_parameter_that_is_wrong_is_named(aws: str) -> None:
    answer = run_in_a_process(MANGROVE_TRUSTED_PROXIES="cloudfront", AWS_ENDPOINT_URL=aws)
    assert answer["Status"] == "FAILED"
    assert "ValueError: MANGROVE_TRUSTED_PROXIES: 'cloudfront' does not appear to be" in answer["Reason"]


def test_a_table_that_the_template_does_not_name_is_named() -> None:
    answer = run_in_a_process(MANGROVE_TABLES="users=u,storages=s")
    assert answer["Status"] == "FAILED"
    assert "ValueError: MANGROVE_TABLES names no table of " in answer["Reason"]


def test_what_nobody_foresaw_has_no_text_of_its_own(aws: str) -> None:
    answer = run_in_a_process(AWS_ENDPOINT_URL=aws)
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == "KeyError, see the log (log group g, request i)"


def test_an_answer_that_is_refused_is_a_failure_of_the_function() -> None:
    seen = []

    class Refusing(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append(self.headers["content-type"])
            self.send_response(307 if self.path == "/moved" else 403)
            self.send_header("location", "/")
            self.send_header("content-length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for path, status in (("", 403), ("moved", 307)):
            event = EVENT | {"RequestType": "Delete", "ResponseURL": f"http://127.0.0.1:{server.server_port}/{path}"}
            with pytest.raises(OSError, match=f"CloudFormation's address answers {status}"):
                app.handler(event, SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000, **NAMES))
        server.shutdown()
    assert seen == ["", ""], "the address is signed for no type"


NAMES = {"log_group_name": "g", "aws_request_id": "i"}
