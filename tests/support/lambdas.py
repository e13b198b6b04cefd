"""The service as it is deployed: every function of the template, with the tables, buckets and machines beside them."""

from __future__ import annotations

import json
import os
import queue
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from mangrove.standalone import template
from tests import servers
from tests.support import engine as engines
from tests.support import interpreters
from tests.support.policies import FUNCTIONS, get_folder
from tests.support.runtime_api import ANSWER_SECONDS, Aws, Function, FunctionError, Launcher, launch_sources

ROOT = Path(__file__).resolve().parents[2]
ADMIN_PASSWORD = "the first password"
STACK = "stack"
KINDS = template.read_kinds() | {"Tasks": "old_tasks"}  # those of 0.3.0 are read by the set-up
REGION = "us-east-1"
ROLE = "arn:aws:iam::123456789012:role/machine"
PSEUDO = {"AWS::Partition": "aws", "AWS::AccountId": "123456789012"}
KEYS = {"aws_access_key_id": "role", "aws_secret_access_key": "role"}
SCRIPT, PACKED = b"start()", bytes(range(256))  # of the page, and what stands for it compressed
PAGE = {
    "index.html": b"<title>Mangrove</title><!-- customize head -->"
    b'<script type="module" src="/@assets/app-1.js"></script>',
    "@assets/app-1.js": SCRIPT,
    "@assets/app-1.js.br": PACKED,
}


class Cloud:
    """A deployment: tables, buckets, secrets, machines and every function of the template.

    `refs`: what `!Ref` says of each resource that has no Arn of its own in the tests. `interpret`: what runs machines;
    `visited`: the states that they were in. `sampled`: whether the samples
    in `events/` were sent to it.
    """

    sampled = False

    def __init__(self, refs: dict[str, str], aws: Aws, launch: Launcher, **environment: str) -> None:
        self.refs = refs
        self.aws = aws
        self.interpret: interpreters.Interpreter = interpreters.run_here
        self.visited: list[str] = []
        self._stack = ExitStack()
        common = template.load_template()["Globals"]["Function"]["Environment"]["Variables"]
        self._by_folder: dict[str, Function] = {}
        self._by_resource: dict[str, Function] = {}
        for name, properties in FUNCTIONS.items():
            variables = common | properties.get("Environment", {}).get("Variables", {})
            known = {key: self._resolve(value) for key, value in variables.items()} | environment
            function = self._by_resource[name] = Function(name, known, aws, launch(name))
            self._by_folder[get_folder(name)] = function

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
            return re.sub(r"\$\{([\w:]+)}", lambda match: (self.refs | PSEUDO)[match[1]], rest)
        assert kind == "Fn::FindInMap", value
        resolved: str = template.load_template()["Mappings"][rest[0]]["prod"][rest[2]]
        return resolved

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
        """Start all functions concurrently, for tests that need all of them."""
        for function in self._by_folder.values():
            function.start()

    def run_executions(self) -> None:
        """Run every execution that was started, and those that they start, as Step Functions would have by now."""
        client = self.client("stepfunctions")
        arns = {name: self.refs[name] for name, _ in template.iter_resources("AWS::Serverless::StateMachine")}
        while executions := [
            (execution["startDate"], execution["executionArn"], name)
            for name, arn in arns.items()
            for execution in client.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]
        ]:
            for _, arn, name in sorted(executions):
                self._run_execution(name, json.loads(client.describe_execution(executionArn=arn)["input"]))
                client.stop_execution(executionArn=arn)

    def _run_execution(self, name: str, input: dict[str, Any]) -> None:
        properties = template.load_template()["Resources"][name]["Properties"]
        workers = {
            state: self._by_resource[value["Fn::GetAtt"].removesuffix(".Arn")]
            for state, value in properties["DefinitionSubstitutions"].items()
        }

        def work(state: str, value: dict[str, Any]) -> Any:
            try:
                return workers[state](value)
            except FunctionError as error:
                raise type(error.kind, (Exception,), {})(error.message) from error

        execution = self.interpret(json.loads((ROOT / properties["DefinitionUri"]).read_text()), input, work)
        self.visited += execution.visited
        assert execution.output is not None, f"{name} failed after {execution.visited}"

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
def deploy(
    snapshot_seconds: str = "0",
    launch: Launcher = launch_sources,
    engine: Callable[[], AbstractContextManager[str]] = engines.engine,
    page: Path | None = None,
) -> Iterator[Cloud]:
    """The service on a real records engine, moto's S3 and Secrets Manager, and Lambda's runtime client.

    `snapshot_seconds`: how long a function trusts what it read of the configuration; 0 for not at all. `page`: the
    folder of a built page, in place of PAGE.
    """
    with engine() as records, servers.moto_s3() as services, TemporaryDirectory() as page_folder:
        client = servers.make_client("dynamodb", records)
        for table in template.read_tables(STACK, KINDS):
            client.create_table(**table)
        for name, content in PAGE.items():
            file = Path(page_folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        cloud = Cloud(
            _create_resources(services),
            (records, services),
            launch,
            PATH=os.environ["PATH"],
            AWS_ACCESS_KEY_ID="role",
            AWS_SECRET_ACCESS_KEY="role",
            AWS_REGION=REGION,
            AWS_DEFAULT_REGION=REGION,
            MANGROVE_SNAPSHOT_SECONDS=snapshot_seconds,
            MANGROVE_PAGE=str(page or page_folder),
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
    resources = {
        "AWS::StackName": STACK,
        **{resource: f"{STACK}-{kind}" for resource, kind in KINDS.items()},
        "MasterKey": manager.create_secret(Name=f"key-{name}", SecretString=secrets.token_hex(32))["ARN"],
        **{key: manager.create_secret(Name=f"{key}-{name}")["ARN"] for key in ("IntegrityKey", "TokenKey")},
        "AdminSecret": manager.create_secret(Name=f"admin-{name}", SecretString=ADMIN_PASSWORD)["ARN"],
    }
    for role, _ in template.iter_resources("AWS::IAM::Role"):
        resources[role] = f"{role.lower()}-{name}"
    for bucket, _ in template.iter_resources("AWS::S3::Bucket"):
        resources[bucket] = f"{bucket.lower()}-{name}"
        store.create_bucket(Bucket=resources[bucket])
    for bus, _ in template.iter_resources("AWS::Events::EventBus"):
        resources[bus] = f"{bus.lower()}-{name}"
        servers.make_client("events", services).create_event_bus(Name=resources[bus])
    for machine, resource in template.iter_resources("AWS::Serverless::StateMachine"):
        text = (ROOT / resource["Properties"]["DefinitionUri"]).read_text()
        created = steps.create_state_machine(name=f"{machine}-{name}", definition=text, roleArn=ROLE)
        resources[machine] = created["stateMachineArn"]
    return resources
