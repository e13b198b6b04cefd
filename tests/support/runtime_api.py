"""A function as Lambda runs it: AWS's own runtime client in a process of its own, fed through the Runtime API."""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from tests.support import recorder
from tests.support.policies import FUNCTIONS, Policy, find_listing

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 75  # that a function is given
ANSWER_SECONDS = 120  # after which a test gives up on it
KILLED = "killed"
Aws = tuple[str, str]
"""The addresses of the records engine and of all other services."""


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
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + DEADLINE_SECONDS) * 1000)),
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


class FunctionError(Exception):
    """A function ended in an error. `kind`: the name by which a state machine knows it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of a function's process: Python's command, the folder of its code, and further import paths."""

    python: Sequence[str | Path]
    folder: Path
    path: Sequence[Path]


Launcher = Callable[[str], Launch]
"""By the function's name in the template."""


def launch_sources(name: str) -> Launch:
    """A function as it is in the checkout."""
    return Launch([sys.executable], ROOT / FUNCTIONS[name]["CodeUri"], [ROOT / "shared"])


class Function:
    """One deployed function, started at its first event and warm from then on.

    `calls`: what it called so far, and `used`: the rights that this needed. `on_call` is called with what each of its
    calls needed, before the function gets the answer; `refuse` with the same before the call is made, and names the
    error that it gets instead, or "". `policy`: what it may do; None for everything.
    """

    def __init__(self, name: str, environment: Mapping[str, str], aws: Aws, launch: Launch) -> None:
        self.calls: list[recorder.Call] = []
        self.used: set[recorder.Right] = set()
        self.on_call: Callable[[set[recorder.Right]], None] | None = None
        self.refuse: Callable[[set[recorder.Right]], str] | None = None
        self.policy: Policy | None = None
        self._name = name
        self.handler = FUNCTIONS[name].get("Handler", "app.handler")
        self.environment = environment
        self.launch = launch
        self._aws = aws
        self._stack = ExitStack()
        self._server: _Server | None = None
        self._log = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, event: dict[str, Any]) -> Any:
        """Return the answer of the handler; Ended if it ends in an error."""
        server = self.start()
        server.events.put(event)
        kind, result = server.results.get(timeout=ANSWER_SECONDS)
        if kind == KILLED:
            self.close()
        if kind != "response":
            raise FunctionError(result["errorType"], result["errorMessage"])
        return result

    def start(self) -> _Server:
        """Start the process unless it runs, without waiting until it is ready."""
        if self._server is None:
            self._server = self._start()
        return self._server

    def kill(self) -> None:
        """Kill it during its work, as Lambda does when its time is over; another event starts it again."""
        assert self._process is not None and self._server is not None
        self._process.kill()
        self._process.wait()
        self._server.results.put((KILLED, {"errorType": "Sandbox.Timedout", "errorMessage": "killed"}))

    def read_log(self) -> str:
        """Return the log since the start."""
        return self._log.read_text()

    def count_cpu(self) -> float:
        """Seconds that its process has computed."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def judge(self, needs: set[recorder.Right]) -> str:
        """The error that a call which needs that gets from AWS; "" for none."""
        if self.policy is not None and not self.policy.grants(needs):
            return recorder.DENIED
        return self.refuse(needs) if self.refuse else ""

    def hides_absence(self, needs: set[recorder.Right]) -> bool:
        """Return True if it does not learn that an object is missing, as it may not list the bucket."""
        listing = find_listing(needs)
        if self.policy is not None and not self.policy.grants(listing):
            return True
        self.used |= listing
        return False

    def note_call(self, call: recorder.Call, needs: set[recorder.Right]) -> None:
        """A call was made."""
        self.calls.append(call)
        self.used.update(needs)
        if self.on_call is not None:
            self.on_call(needs)

    def _serve(self, server: ThreadingHTTPServer) -> str:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return f"127.0.0.1:{server.server_port}"

    def _start(self) -> _Server:
        server = _Server()
        folder = self._stack.enter_context(TemporaryDirectory())
        environment = {
            **self.environment,
            "AWS_ENDPOINT_URL": f"http://{self._serve(recorder.Recorder(*self._aws, self))}",
            "AWS_LAMBDA_RUNTIME_API": self._serve(server),
            "AWS_LAMBDA_FUNCTION_NAME": self._name,
            "PYTHONPATH": os.pathsep.join(map(str, self.launch.path)),
            "TMPDIR": folder,
        }
        self._log = Path(folder, "log")
        command = [*self.launch.python, "-m", "awslambdaric", self.handler]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.launch.folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self._stack.callback(self._process.wait)
        self._stack.callback(self._process.kill)
        return server

    def close(self) -> None:
        self._stack.close()
        self._server = None
