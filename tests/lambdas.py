"""Functions as Lambda runs them: AWS's own runtime client in a process of its own, fed through the Runtime API."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from mangrove.local import machines, template
from tests import engine as engines
from tests import recorder, servers

ROOT = Path(__file__).resolve().parent.parent
ADMIN_PASSWORD = "the first password"
DEADLINE_SECONDS = 75  # that a function is given
ANSWER_SECONDS = 120  # after which a test gives up on it
STACK = "stack"
REGION = "us-east-1"
ROLE = "arn:aws:iam::123456789012:role/machine"
KEYS = {"aws_access_key_id": "role", "aws_secret_access_key": "role"}
KILLED = "killed"
SCRIPT, PACKED = b"start()", bytes(range(256))  # of the page, and what stands for it compressed
PAGE = {
    "index.html": b'<title>Mangrove</title><script type="module" src="/@assets/app-1.js"></script>',
    "@assets/app-1.js": SCRIPT,
    "@assets/app-1.js.br": PACKED,
}
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


class Function:
    """One deployed function, started at its first event and warm from then on.

    `used`: the rights it needed so far. `on_call` is called with what each of its calls needed, before the function
    gets the answer.
    """

    def __init__(self, name: str, properties: Mapping[str, Any], environment: Mapping[str, str], aws: Aws) -> None:
        self.used: set[recorder.Right] = set()
        self.on_call: Callable[[set[recorder.Right]], None] | None = None
        self._name = name
        self._code = properties["CodeUri"]
        self._handler = properties.get("Handler", "app.handler")
        self._environment = environment
        self._aws = aws
        self._stack = ExitStack()
        self._server: _Server | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, event: dict[str, Any]) -> Any:
        """What the handler answers; Ended when it ends in an error."""
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
        """End it in the middle of what it does, as Lambda does when its time is over; another event starts it anew."""
        assert self._process is not None and self._server is not None
        self._process.kill()
        self._process.wait()
        self._server.results.put((KILLED, {"errorType": "Sandbox.Timedout", "errorMessage": "killed"}))

    def _note_call(self, needs: set[recorder.Right]) -> None:
        if self.on_call is not None:
            self.on_call(needs)

    def _serve(self, server: ThreadingHTTPServer) -> str:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return f"127.0.0.1:{server.server_port}"

    def _start(self) -> _Server:
        server = _Server()
        environment = {
            **self._environment,
            "AWS_ENDPOINT_URL": f"http://{self._serve(recorder.Recorder(*self._aws, self.used, self._note_call))}",
            "AWS_LAMBDA_RUNTIME_API": self._serve(server),
            "AWS_LAMBDA_FUNCTION_NAME": self._name,
            "PYTHONPATH": str(ROOT / "shared"),
            "TMPDIR": self._stack.enter_context(TemporaryDirectory()),
        }
        command = [sys.executable, "-m", "awslambdaric", self._handler]
        self._process = subprocess.Popen(
            command, cwd=ROOT / self._code, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._stack.callback(self._process.wait)
        self._stack.callback(self._process.kill)
        return server

    def close(self) -> None:
        self._stack.close()
        self._server = None


class Cloud:
    """A deployment: tables, buckets, secrets, machines and every function of the template.

    `refs`: what `!Ref` says of each resource that has no Arn of its own in the tests. `sampled`: whether the samples
    in `events/` were sent to it.
    """

    sampled = False

    def __init__(self, refs: dict[str, str], aws: Aws, **environment: str) -> None:
        self.refs = refs
        self.aws = aws
        self._stack = ExitStack()
        common = template.load_template()["Globals"]["Function"]["Environment"]["Variables"]
        self._by_folder: dict[str, Function] = {}
        self._by_resource: dict[str, Function] = {}
        for name, resource in template.iter_resources("AWS::Serverless::Function"):
            properties = resource["Properties"]
            variables = common | properties.get("Environment", {}).get("Variables", {})
            known = {key: self._resolve(value) for key, value in variables.items()} | environment
            function = self._by_resource[name] = Function(name, properties, known, aws)
            module = properties.get("Handler", "app.handler").partition(".")[0]
            self._by_folder[f"{properties['CodeUri']}{module}".removesuffix("/app")] = function

    def _resolve(self, value: Any) -> str:
        """A value of the template in this deployment, which has no own domain."""
        if isinstance(value, str):
            return value
        ((kind, rest),) = value.items()
        if kind == "Ref":
            parameter = template.load_template()["Parameters"].get(rest, {})
            return self.refs.get(rest) or str(parameter["Default"])
        if kind == "Fn::If":
            return self._resolve(rest[2])
        if kind == "Fn::Sub":
            return re.sub(r"\$\{(\w+)}", lambda found: self.refs[found[1]], rest)
        assert kind == "Fn::FindInMap", value
        found: str = template.load_template()["Mappings"][rest[0]]["prod"][rest[2]]
        return found

    def get_function_in(self, folder: str) -> Function:
        """The function of a folder, or of one of the modules in it that are no app."""
        return self._by_folder[folder]

    def get_function(self, name: str) -> Function:
        """The function that a resource of the template makes."""
        return self._by_resource[name]

    def client(self, service: str) -> Any:
        """The test's own way to the deployment's records and services."""
        return servers.make_client(service, self.aws[service != "dynamodb"])

    def serve_files(self, files: Mapping[str, bytes]) -> str:
        """The address of an HTTP server that has these files, by their paths, and answers ranges of them."""

        class Files(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                content = files.get(self.path)
                begin = int(self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
                self.send_response(404 if content is None else 206 if begin else 200)
                size = len(content or b"")
                self.send_header("content-length", str(size - begin))
                self.send_header("accept-ranges", "bytes")
                self.send_header("etag", f'"{size}"')
                if begin:
                    self.send_header("content-range", f"bytes {begin}-{size - 1}/{size}")
                self.end_headers()
                with suppress(ConnectionError):  # it may be killed while it listens
                    self.wfile.write((content or b"")[begin:])

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def start(self) -> None:
        """Start all functions at once, for tests that need them all."""
        for function in self._by_folder.values():
            function.start()

    def run_executions(self) -> None:
        """Run every execution that was started, and those that they start, as Step Functions would have by now."""
        client = self.client("stepfunctions")
        arns = {name: self.refs[name] for name, _ in template.iter_resources("AWS::Serverless::StateMachine")}
        while executions := [
            (one["startDate"], one["executionArn"], name)
            for name, arn in arns.items()
            for one in client.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]
        ]:
            for _, arn, name in sorted(executions):
                self._run_execution(name, json.loads(client.describe_execution(executionArn=arn)["input"]))
                client.stop_execution(executionArn=arn)

    def _run_execution(self, name: str, given: dict[str, Any]) -> None:
        properties = template.load_template()["Resources"][name]["Properties"]
        machine = machines.Machine(json.loads((ROOT / properties["DefinitionUri"]).read_text()))
        workers = {
            state: self._by_resource[value["Fn::GetAtt"].removesuffix(".Arn")]
            for state, value in properties["DefinitionSubstitutions"].items()
        }

        async def work(state: str, value: dict[str, Any]) -> dict[str, Any]:
            try:
                answer: dict[str, Any] = workers[state](value)
            except FunctionError as error:
                raise type(error.kind, (Exception,), {})(error.message) from error
            return answer

        async def skip_wait(seconds: float) -> None:
            pass  # nothing else works meanwhile

        asyncio.run(machine.run(given, work, sleep=skip_wait))

    def run_setup(self, **request: Any) -> dict[str, Any]:
        """Run the set-up function as CloudFormation does; its answer to CloudFormation."""
        with listen_as_cloudformation() as (url, answers):
            event = {"RequestType": "Create", "ResponseURL": url, "StackId": "s", "RequestId": "r"} | request
            self.get_function_in("functions/workers/setup")(event | {"LogicalResourceId": "Setup"})
            return answers.get(timeout=ANSWER_SECONDS)

    def close(self) -> None:
        self._stack.close()
        for function in self._by_folder.values():
            function.close()


@contextmanager
def listen_as_cloudformation() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """The address that a custom resource answers to, and its answers."""
    answers: queue.Queue[dict[str, Any]] = queue.Queue()

    class Listener(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            answers.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", answers
        server.shutdown()


@contextmanager
def deploy(snapshot_seconds: str = "0") -> Iterator[Cloud]:
    """The service on a real records engine, moto's S3 and Secrets Manager, and Lambda's runtime client.

    `snapshot_seconds`: how long a function trusts what it read of the configuration; 0 for not at all.
    """
    with engines.engine() as records, servers.moto_s3() as services, TemporaryDirectory() as page:
        client = servers.make_client("dynamodb", records)
        for table in template.read_tables(STACK):
            client.create_table(**table)
        for name, content in PAGE.items():
            file = Path(page, name)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        cloud = Cloud(
            _create_resources(services),
            (records, services),
            PATH=os.environ["PATH"],
            AWS_ACCESS_KEY_ID="role",
            AWS_SECRET_ACCESS_KEY="role",
            AWS_REGION=REGION,
            AWS_DEFAULT_REGION=REGION,
            MANGROVE_SNAPSHOT_SECONDS=snapshot_seconds,
            MANGROVE_PAGE=page,
        )
        try:
            yield cloud
        finally:
            cloud.close()


def _create_resources(services: str) -> dict[str, str]:
    """The resources, with names of their own: all of a process's moto servers share one account."""
    name = secrets.token_hex(8)
    manager, store, steps = (
        servers.make_client(service, services) for service in ("secretsmanager", "s3", "stepfunctions")
    )
    found = {
        "AWS::StackName": STACK,
        **{resource: f"{STACK}-{kind}" for resource, kind in template.read_kinds().items()},
        "MasterKey": manager.create_secret(Name=f"key-{name}", SecretString=secrets.token_hex(32))["ARN"],
        "AdminSecret": manager.create_secret(Name=f"admin-{name}", SecretString=ADMIN_PASSWORD)["ARN"],
    }
    for bucket, _ in template.iter_resources("AWS::S3::Bucket"):
        found[bucket] = f"{bucket.lower()}-{name}"
        store.create_bucket(Bucket=found[bucket])
    for machine, resource in template.iter_resources("AWS::Serverless::StateMachine"):
        text = (ROOT / resource["Properties"]["DefinitionUri"]).read_text()
        created = steps.create_state_machine(name=f"{machine}-{name}", definition=text, roleArn=ROLE)
        found[machine] = created["stateMachineArn"]
    return found
