"""Requests of a copy between two buckets of one server: one call for each object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from mangrove.records.tasks.model import Task
from mangrove.tasks.core.model import State
from tests import servers
from tests.support.task_env import Bucket, TaskEnv
from tests.unit.drivers.s3.proxy import Exchange, Proxy, proxied

SUCCEEDED = (State.SUCCEEDED, "")
NAMES = [f"{number:04}" for number in range(12)]


@pytest.fixture
def aws(task_env: TaskEnv) -> Iterator[Proxy]:
    """A server that decides the conditions of a copy, as AWS does and moto does not."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]

    def find_etag(place: str) -> str:
        bucket, _, key = unquote(place).lstrip("/").partition("/")
        stored = backend.head_object(bucket, key)
        return str(stored.etag) if stored else ""

    def decide(exchange: Exchange) -> None:
        if exchange.operation != "copy_object":
            return
        expected_etag = exchange.headers.get("x-amz-copy-source-if-match")
        is_other = expected_etag and find_etag(exchange.headers["x-amz-copy-source"]) != expected_etag
        if is_other or ("if-none-match" in exchange.headers and find_etag(exchange.target)):
            exchange.respond(412, "PreconditionFailed")

    with proxied(task_env.endpoint()) as proxy:
        proxy.before.append(decide)
        yield proxy


@pytest.fixture
def two(task_env: TaskEnv, aws: Proxy) -> tuple[Bucket, Bucket]:
    """Two buckets of that server."""

    def make() -> Bucket:
        direct = task_env.bucket()
        options = servers.s3_options(aws.endpoint, direct.name)
        return Bucket(task_env.mount("S3", options), direct.client, direct.name)

    return make(), make()


def count(aws: Proxy, task_env: TaskEnv, task: Task) -> Counter[str]:
    """Count the requests of the task to the server, without the probes of its features."""
    del aws.seen[:]
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    return Counter(exchange.operation for exchange in aws.seen if ".mangrove-" not in exchange.target)


@pytest.mark.parametrize(
    ("names", "overwrite"),
    [
        (NAMES, False),
        pytest.param(NAMES, True, marks=pytest.mark.long),
        pytest.param([f"{number:04}" for number in range(1000)], False, marks=pytest.mark.long),
    ],
)
def test_each_object_costs_one_call(
    task_env: TaskEnv, aws: Proxy, two: tuple[Bucket, Bucket], names: list[str], overwrite: bool
) -> None:
    source, target = two
    for name in names:
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(source.name, f"d/{name}", name.encode())
    made = count(aws, task_env, task_env.copy(source.mount, target.mount, "d", overwrite=overwrite))
    assert made["copy_object"] == len(names)
    assert made.total() - len(names) <= max(16, 0.1 * len(names)), made
    keys = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[target.name].keys
    assert {name: keys[f"d/{name}"].value for name in names} == {name: name.encode() for name in names}


def test_changed_or_existing_entries_are_skipped_by_name(
    task_env: TaskEnv, aws: Proxy, two: tuple[Bucket, Bucket]
) -> None:
    source, target = two
    for name in NAMES[:6]:
        source.put(f"d/{name}", name.encode())
    task = task_env.copy(source.mount, target.mount, "d")
    waiting = {"d/0001": lambda: source.put("d/0001", b"new!"), "d/0003": lambda: target.put("d/0003", b"theirs")}

    def meddle(exchange: Exchange) -> None:
        if exchange.operation == "copy_object" and exchange.key in waiting:
            waiting.pop(exchange.key)()

    def begin(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 0):
            target.put("d/0004/below", b"theirs")
            target.put("d/0005", b"0005")  # as a worker that died may have left it

    aws.before.insert(0, meddle)
    task_env.run(task, begin)
    state, error = task_env.view(task)
    assert state == State.FAILED
    assert error.startswith("3 of 7 items failed: ")
    assert "0001: the source changed since the task began" in error
    assert "0003: file exists" in error and "0004: " in error, error
    assert target.files() == {
        "d/0000": b"0000", "d/0002": b"0002", "d/0003": b"theirs", "d/0004/below": b"theirs", "d/0005": b"0005",
    }  # fmt: skip
