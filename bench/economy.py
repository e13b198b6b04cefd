"""The cost of common requests in the cloud: the calls to AWS by the functions, and dollars per million requests.

The calls are counted, not estimated. Each function runs as Lambda runs it, from the build if there is one, and every
call passes through a recorder. The time of a function is its CPU time on this machine and the known time of AWS's
services.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from bench.coldstart import choose_launch
from bench.prices import PRICES
from bench.tables import Table
from mangrove.standalone import template
from tests.contract.scenarios import Person
from tests.support import lambdas
from tests.support.policies import FUNCTIONS
from tests.support.recorder import Call
from tests.support.runtime_api import Function

FREE = ("s3:DELETE",)
MILLISECONDS = {"s3:HEAD": 12.0, "s3:LIST": 25.0, "s3:GET": 15.0, "dynamodb": 4.0}  # of a call within a region
OTHER_MILLISECONDS = 30.0
CORE_MB = 1769  # memory with which a function has one core
LOG_BYTES = 1900  # per request: its line, its metrics, the line of the API, two lines of Lambda
OLD_SECONDS = 2.2  # after which a function compares the version of the configuration
OBJECTS = 1000  # in the folder that is listed and copied
COPIED = OBJECTS + 1  # with the uploaded one
REPEATS = 20
COPYING = ("FilesFunction", "TransferPlan", "TransferMove", "TransferSettle")
MB = bytes(1_000_000)
FOLDER = "/files/economy"


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a request, or of one object of a request for many."""

    calls: list[Call]  # to AWS
    warm_calls: int  # calls right after another request
    dollars: float  # per million
    objects: int = 1

    def list_cells(self, aim: str) -> list[str]:
        """Return the cells of a row but the first."""
        s3_calls = sum(call.operation.startswith("s3:") for call in self.calls)
        counts = (len(self.calls), s3_calls, self.warm_calls)
        return [*(f"{count / self.objects:.3g}" for count in counts), aim, f"{self.dollars / self.objects:,.2f}"]


def print_tables(folder: Path, options: Namespace) -> Iterator[Table]:
    """Print the table of docs/guides/costs.md.

    Each request runs twice: the second one, of a warm function whose configuration is due to be asked for, counts.
    """
    launch, origin = choose_launch(folder)
    with ExitStack() as stack:
        cloud = stack.enter_context(lambdas.deploy("2", launch))
        assert cloud.run_setup()["Status"] == "SUCCESS"
        versioning = {"Status": "Enabled"}  # as the template has it unless Protection is off
        s3, bucket = cloud.client("s3"), cloud.refs["Files"]
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=versioning)
        for number in range(OBJECTS):
            s3.put_object(Bucket=bucket, Key=f"economy/{number:03}.txt", Body=b"x")
        columns = ("request", "calls of AWS", "of them S3", "right after another", "aim", "$ per million")
        table = Table("Economy", origin, *columns)
        admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
        for name, resource, aim, ask in list_requests(admin):
            if options.only in name:
                table.add(name, *count_request(cloud, resource, ask).list_cells(aim))
        table.add(f"copy within S3, per object of {COPIED}", *count_copy(admin).list_cells("S3 ≤ 1.1"))
    yield table


def list_requests(admin: Person) -> list[tuple[str, str, str, Callable[[], object]]]:
    """Return the name, function, aim and work of each usual request."""
    sign = admin.gets("files/get", path=f"{FOLDER}/000.txt")["sign"]
    list_anew = partial(admin.gets, "files/list", path=FOLDER, page=1, per_page=100, refresh=True)
    return [
        ("sign in", "AuthFunction", "≤ 5", lambda: admin.sign_in("admin", lambdas.ADMIN_PASSWORD)),
        ("list a folder, page of 100", "FilesFunction", "≤ 2 + pages", list_anew),
        ("get one file", "FilesFunction", "≤ 2", lambda: admin.gets("files/get", path=f"{FOLDER}/001.txt")),
        ("download, redirected", "DownloadsFunction", "≤ 2", lambda: admin.downloads(f"{FOLDER}/000.txt", sign)),
        ("put 1 MB", "UploadsFunction", "≤ 4", lambda: admin.puts(f"{FOLDER}/put.bin", MB)),
        ("tasks under way", "TasksFunction", "", lambda: admin.tasks("copy", "undone")),
    ]


def count_request(cloud: lambdas.Cloud, resource: str, ask: Callable[[], object]) -> Bill:
    """Return the bill of a request to a warm function that has to check its configuration. Its time is a mean."""
    function = cloud.get_function(resource)
    ask()
    time.sleep(OLD_SECONDS)
    calls, warm_calls = (watch(function, ask) for _ in range(2))
    before = function.count_cpu()
    for _ in range(REPEATS):
        ask()
    seconds = (function.count_cpu() - before) / REPEATS
    dollars = bill_invocation(resource, calls, seconds) + PRICES["API Gateway request"]
    return Bill(calls, len(warm_calls), dollars + PRICES["log GB"] * LOG_BYTES / 1e9)


def watch(function: Function, ask: Callable[[], object]) -> list[Call]:
    """Return the calls that a function makes during a request."""
    function.calls.clear()
    ask()
    return list(function.calls)


def count_copy(admin: Person) -> Bill:
    """Return the bill of a copy between two mounts of one bucket, for each object."""
    cloud = admin.cloud
    addition = {"bucket": cloud.refs["Files"], "region": lambdas.REGION, "root_folder_path": "/other root"}
    admin.gets("storages/create", mount_path="/within", driver="S3", addition=json.dumps(addition))
    functions = {name: cloud.get_function(name) for name in COPYING}
    for function in functions.values():
        function.start()
        function.calls.clear()
    before = {name: function.count_cpu() for name, function in functions.items()}
    cloud.visited.clear()
    (id,) = admin.transfer("copy", "/files", "/within", "economy")
    cloud.run_executions()
    assert admin.read_outcome("copy", id)[0] == "succeeded"
    dollars = PRICES["state transition"] * len(cloud.visited)
    for name, function in functions.items():
        dollars += bill_invocation(name, function.calls, function.count_cpu() - before[name])
    calls = [call for function in functions.values() for call in function.calls]
    return Bill(calls, len(calls), dollars, COPIED)


def bill_call(call: Call) -> float:
    """Return the dollars for a million calls of small items. A write to a table also writes to each index."""
    service, _, operation = call.operation.partition(":")
    if call.operation in FREE or service == "states":  # the transitions are billed instead
        return 0.0
    if service == "s3":
        return PRICES["S3 GET, HEAD" if operation in ("GET", "HEAD") else "S3 PUT, LIST"]
    if service == "secretsmanager":
        return PRICES["Secrets Manager call"]
    twice = 2 if operation.startswith("Transact") else 1
    if any(word in operation for word in ("Get", "Query", "Scan")):
        return PRICES["DynamoDB read"] * len(call.tables) * twice
    indexes = count_indexes()
    return PRICES["DynamoDB write"] * twice * sum(1 + indexes[table] for table in call.tables)


@cache
def count_indexes() -> Mapping[str, int]:
    """Return the number of indexes of each table."""
    tables = template.read_tables(lambdas.STACK)
    return {table["TableName"]: len(table.get("GlobalSecondaryIndexes", ())) for table in tables}


def bill_invocation(resource: str, calls: Sequence[Call], cpu_seconds: float) -> float:
    """Return the dollars for a million invocations of a function with their calls.

    Less memory makes the computation slower, and calls are made one after the other.
    """
    common = template.load_template()["Globals"]["Function"]["MemorySize"]
    memory = int(FUNCTIONS[resource].get("MemorySize", common))
    kinds = ("dynamodb" if call.tables else call.operation for call in calls)
    waited = sum(MILLISECONDS.get(kind, OTHER_MILLISECONDS) for kind in kinds) / 1000
    seconds = cpu_seconds * max(CORE_MB / memory, 1) + waited
    invocation = PRICES["Lambda request"] + PRICES["Lambda GB-second"] * seconds * memory / 1024
    return invocation + sum(map(bill_call, calls))
