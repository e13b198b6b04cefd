"""Cold starts: the CPU time of a new process of each function until it has answered its first request.

The CPU time is that of the whole process, so it depends little on other programs. The functions are those of
`make build` with their layers, or those of the repository with all installed packages, which takes longer. Records are
on the engine; moto stands in for S3 and Secrets Manager. The task of a worker is finished.

The speed of a machine changes during the day and with its load. For comparison, a plain Python process, the yardstick,
imports parts of the standard library before and after each function. The ratio of a start is its time divided by the
mean of these two. The converted time is the median ratio of all rounds on a machine whose yardstick takes
REFERENCE_MILLISECONDS, and budgets are for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.tables import Aim, Table, describe_machine
from mangrove.tasks.index.indexing import make_task_id
from tests.contract import test_events as samples
from tests.contract.scenarios import Person
from tests.support import built, lambdas
from tests.support.policies import FUNCTIONS, get_folder
from tests.support.runtime_api import Launcher, launch_sources

ROUNDS = 10
REQUEST = """
import importlib, json, resource, sys

def spend():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1000

class Context:
    log_group_name = aws_request_id = function_name = memory_limit_in_mb = invoked_function_arn = "1"
    def get_remaining_time_in_millis(self):
        return 80_000

sys.path.insert(0, "")
module, name = sys.argv[1].rsplit(".", 1)
answer = getattr(importlib.import_module(module), name)(json.loads(sys.argv[2]), Context())
print(json.dumps([spend(), answer]))
"""
YARDSTICK = (
    "import asyncio, decimal, email.parser, html.parser, http.client, json, logging.config, resource, unittest\n"
    "used = resource.getrusage(resource.RUSAGE_SELF)\n"
    "print((used.ru_utime + used.ru_stime) * 1000)"
)
FIRST = {  # the sample that is a group's first request, if it is not its list
    "site": "site/public_settings",
    "auth": "auth/me",
    "tasks": "tasks/done",
    "search": "search/progress",
    "uploads": "uploads/put",
    "downloads": "downloads/d_get",
    "dav": "dav/root",
    "mcp": "mcp/tools_list",
}
SERVICE_EVENTS = {  # of workers that are in no state machine
    "bucket_events": "bucket_events/created",
    "transfer_identity": "transfer_identity/password",
}
LIGHT = ("site", "downloads")
REFERENCE_MILLISECONDS = 100  # of the yardstick; its fastest runs on a busy machine of two cores took 94
BUDGETS = {"workers": 250, "light": 300, "others": 450}  # ms


class Deployment:
    """The functions, with the records that their first requests use: a bucket, a file and finished tasks."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        launch, self.origin = choose_launch(folder)
        self._python = [sys.executable] if launch is launch_sources else [sys.executable, "-S"]  # with its layers alone
        self.cloud = stack.enter_context(lambdas.deploy("2", launch))
        self._answers, _ = stack.enter_context(lambdas.listen_as_cloudformation())
        self._values = samples.Values()
        self.cloud.run_setup()
        for name in ("auth/login", "files/mkdir", "uploads/put", "files/get"):
            samples.run(self.cloud, self._values, name)
        samples.save_settings(self.cloud, self._values, mcp_enabled="true")
        admin = Person(self.cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
        self._mcp_token = admin.gets("auth/token_create", title="bench", protocols=["mcp"])["token"]
        self._values.known["bucket"] = self.cloud.refs["Files"]
        self._tasks = {"transfer": self._open("tasks/undone"), "download": self._open("files/add_offline_download")}
        samples.run(self.cloud, self._values, "files/archive_meta")
        self._tasks["decompress"] = self._open("files/archive_decompress")
        self._tasks["compress"] = self._open("files/archive_compress")
        samples.open_removal(self.cloud, self._values)
        self._tasks["remove"] = self._values.known["tid"]
        self.cloud.run_executions()
        samples.switch_index_on(self.cloud, self._values)
        self._tasks["index"] = make_task_id(1)

    def _open(self, sample: str) -> str:
        """Return the id of the task that a request creates."""
        samples.run(self.cloud, self._values, sample)
        return self._values.known["tid"]

    def make_event(self, folder: str) -> dict[str, Any]:
        """Return the first request of the function in a folder."""
        kind, _, rest = folder.removeprefix("functions/").partition("/")
        if kind == "api":
            event = self._values.fill(FIRST.get(rest, f"{rest}/list"))
            if rest == "mcp":
                event["headers"] |= {"authorization": self._mcp_token}
            return event
        if rest == "setup":
            about = {"StackId": "s", "RequestId": "r", "LogicalResourceId": "Setup"}
            return {"RequestType": "Create", "ResponseURL": self._answers} | about
        if rest in SERVICE_EVENTS:
            return self._values.fill(SERVICE_EVENTS[rest])
        if rest == "task_stream":
            return {"Records": []}
        machine, _, state = rest.partition("/")
        return {"tid": self._tasks[machine], "round": 0, "part": 0} if state else {}

    def start(self, name: str) -> float:
        """Return the CPU milliseconds of a new process of a function until it has answered its first request."""
        function = self.cloud.get_function(name)
        records, services = self.cloud.aws
        environment = {
            **function.environment,
            "AWS_ENDPOINT_URL": services,
            "AWS_ENDPOINT_URL_DYNAMODB": records,
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "PYTHONPATH": ":".join(map(str, function.launch.path)),
        }
        ran = subprocess.run(
            [*self._python, "-c", REQUEST, function.handler, json.dumps(self.make_event(get_folder(name)))],
            cwd=function.launch.folder, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        spent, answer = json.loads(ran.stdout.splitlines()[-1])
        if isinstance(answer, dict) and answer.get("statusCode", 200) >= 400:
            raise RuntimeError(answer)
        return float(spent)


def convert_rounds(starts: Sequence[float], yardsticks: Sequence[float]) -> float:
    """Return the converted time of a function. `yardsticks`: one before the first start and one after each."""
    means = ((before + after) / 2 for before, after in pairwise(yardsticks))
    return median(start / mean for start, mean in zip(starts, means, strict=True)) * REFERENCE_MILLISECONDS


def time_yardstick() -> float:
    """Return the CPU milliseconds of a new process whose work never changes."""
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", YARDSTICK], capture_output=True, text=True, check=True)
    return float(ran.stdout)


def choose_launch(folder: Path) -> tuple[Launcher, str]:
    """Return what starts functions, and its description: from the build if there is one."""
    if reason := built.find_reason_to_skip():
        return launch_sources, f"functions of the checkout ({reason})"
    (client := folder / "runtime client").mkdir()
    return built.Built(client), "functions as they are built"


def _make_aim(name: str) -> Aim:
    code = get_folder(name).removeprefix("functions/")
    kind, _, rest = code.partition("/")
    return Aim(code, "ms", most=BUDGETS["workers" if kind == "workers" else "light" if rest in LIGHT else "others"])


def print_tables(folder: Path, options: Namespace) -> Iterator[Table]:
    """Print a row for each function whose name contains `only`.

    It has the medians of all rounds. A round before them compiles sources without byte code.
    """
    with ExitStack() as stack:
        deployment = Deployment(folder, stack)
        note = f"{describe_machine()}; {deployment.origin}; CPU milliseconds, the medians of {ROUNDS} rounds"
        table = Table("Cold starts", note, "function", "converted", "aim", "measured", "yardstick")
        for name, aim in ((name, _make_aim(name)) for name in FUNCTIONS):
            if options.only in aim.name:
                deployment.start(name)
                before = time_yardstick()
                rounds = [(deployment.start(name), time_yardstick()) for _ in range(ROUNDS)]
                starts, yardsticks = zip(*rounds, strict=True)
                converted = convert_rounds(starts, [before, *yardsticks])
                times = (f"{median(times):.0f}" for times in (starts, yardsticks))
                cells = f"{aim.mark(converted)}{converted:.0f}", str(aim), *times
                table.add(aim.name, *cells)
    yield table
