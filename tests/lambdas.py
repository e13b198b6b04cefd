"""Functions as Lambda runs them: AWS's own runtime client in a process of its own, fed through the Runtime API."""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import boto3

from mangrove.local import template
from tests import engine as engines
from tests import recorder, servers

ROOT = Path(__file__).resolve().parent.parent
ADMIN_PASSWORD = "the first password"
SECONDS = 20


class _Runtime(BaseHTTPRequestHandler):
    """Hands out one event at a time and takes its result."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        event = self.server.events.get()
        self._answer(
            200,
            json.dumps(event).encode(),
            {
                "Lambda-Runtime-Aws-Request-Id": secrets.token_hex(16),
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + SECONDS) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:under-test",
                "Lambda-Runtime-Trace-Id": "Root=1-00000000-000000000000000000000000",
            },
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"null")
        self.server.results.put((self.path.rpartition("/")[2], body))
        self._answer(202, b"{}", {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        # the runtime client dies of a missing Content-Type
        for name, value in (headers | {"Content-Length": str(len(body)), "Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Runtime)
        self.events: queue.Queue[Any] = queue.Queue()
        self.results: queue.Queue[tuple[str, Any]] = queue.Queue()


class Function:
    """One deployed function, started at its first event and warm from then on. `used`: the rights it needed so far."""

    def __init__(self, code: str, environment: dict[str, str], services: tuple[str, str]) -> None:
        self.used: set[recorder.Right] = set()
        self._code = code
        self._environment = environment
        self._services = services
        self._stack = ExitStack()
        self._server: _Server | None = None

    def __call__(self, event: dict[str, Any]) -> Any:
        """What the handler answers; AssertionError when it ends in an error."""
        server = self.start()
        server.events.put(event)
        kind, result = server.results.get(timeout=SECONDS)
        assert kind == "response", (kind, result)
        return result

    def start(self) -> _Server:
        """Begin the start, unless it was begun before, without waiting for its end."""
        if self._server is None:
            self._server = self._start()
        return self._server

    def _serve(self, server: ThreadingHTTPServer) -> str:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return f"127.0.0.1:{server.server_port}"

    def _start(self) -> _Server:
        server = _Server()
        environment = self._environment | {
            "AWS_ENDPOINT_URL": f"http://{self._serve(recorder.Recorder(*self._services, self.used))}",
            "AWS_LAMBDA_RUNTIME_API": self._serve(server),
            "AWS_LAMBDA_FUNCTION_NAME": self._code.rpartition("/")[2],
            "PYTHONPATH": str(ROOT / "shared"),
        }
        command = [sys.executable, "-m", "awslambdaric", "app.handler"]
        process = subprocess.Popen(
            command, cwd=ROOT / self._code, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return server

    def close(self) -> None:
        self._stack.close()


class Cloud:
    """A deployment: tables, buckets, secrets and every function of the template."""

    def __init__(self, environment: dict[str, str], services: tuple[str, str]) -> None:
        self.environment = environment
        codes = {spec.code for spec in template.routes()} | {"functions/workers/setup"}
        self._functions = {code: Function(code, environment, services) for code in codes}

    def function(self, code: str) -> Function:
        return self._functions[code]

    def start(self) -> None:
        """Start all functions at once, for tests that need them all."""
        for function in self._functions.values():
            function.start()

    def setup(self) -> dict[str, Any]:
        """Run the set-up function as CloudFormation does; what it tells CloudFormation."""
        with _stack_listener() as (url, heard):
            event = {"RequestType": "Create", "ResponseURL": url, "StackId": "s", "RequestId": "r"}
            self.function("functions/workers/setup")(event | {"LogicalResourceId": "Setup"})
            return heard.get(timeout=SECONDS)

    def close(self) -> None:
        for function in self._functions.values():
            function.close()


@contextmanager
def _stack_listener() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    heard: queue.Queue[dict[str, Any]] = queue.Queue()

    class Listener(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            heard.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", heard
        server.shutdown()


@contextmanager
def deployed(snapshot_seconds: str = "0") -> Iterator[Cloud]:
    """The service on a real records engine, moto's S3 and Secrets Manager, and Lambda's runtime client.

    `snapshot_seconds`: how long a function trusts what it read of the configuration; 0 for not at all.
    """
    with engines.engine() as records, servers.moto_s3() as aws:
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_ACCESS_KEY_ID": "role",
            "AWS_SECRET_ACCESS_KEY": "role",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "MANGROVE_TABLES": "stack",
            "MANGROVE_SNAPSHOT_SECONDS": snapshot_seconds,
            **_secrets_and_buckets(aws),
        }
        client = boto3.client("dynamodb", endpoint_url=records, region_name="us-east-1", **_KEYS)
        for table in template.tables("stack"):
            client.create_table(**table)
        cloud = Cloud(environment, (records, aws))
        try:
            yield cloud
        finally:
            cloud.close()


_KEYS = {"aws_access_key_id": "role", "aws_secret_access_key": "role"}


def _secrets_and_buckets(aws: str) -> dict[str, str]:
    """With names of their own: all of a process's moto servers share one account."""
    name = secrets.token_hex(8)
    manager = boto3.client("secretsmanager", endpoint_url=aws, region_name="us-east-1", **_KEYS)
    key = manager.create_secret(Name=f"key-{name}", SecretString=secrets.token_hex(32))["ARN"]
    admin = manager.create_secret(Name=f"admin-{name}", SecretString=ADMIN_PASSWORD)["ARN"]
    store = boto3.client("s3", endpoint_url=aws, region_name="us-east-1", **_KEYS)
    store.create_bucket(Bucket=f"files-{name}")
    return {"MANGROVE_KEY_SECRET": key, "MANGROVE_ADMIN_SECRET": admin, "MANGROVE_FILES_BUCKET": f"files-{name}"}
