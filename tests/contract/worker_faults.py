"""Faults of a worker in the middle of its work, and the state afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from mangrove.standalone import template
from mangrove.tasks.core import file_copy
from mangrove.tasks.core.leases import HEARTBEAT_INTERVAL_SECONDS
from tests.contract.scenarios import Person
from tests.support import lambdas
from tests.support.recorder import Right
from tests.support.runtime_api import Function

LARGE = bytes(file_copy.MAX_WHOLE_BYTES + 1)  # goes in parts
HEARTBEAT_WAIT_SECONDS = 120  # until a worker's next heartbeat
CANCELED = ("canceled", "context canceled")
SUCCEEDED = ("succeeded", "")


def once(worker: Function, name: str, happens: Callable[[], object], nth: int = 1, right: str = "s3:PutObject") -> None:
    """Let it happen at the worker's nth call that needs that right for an object of that name: the first that stores
    one begins it."""
    calls = count(1)

    def heed(needs: set[Right]) -> None:
        if any(action == right and place.endswith(f"/{name}") for action, place in needs) and next(calls) == nth:
            worker.on_call = None
            happens()

    worker.on_call = heed


def kill_worker(admin: Person, worker: Function, id: str) -> None:
    """End a worker before it knows the name of what it began, and its lease with it."""
    worker.kill()
    change(admin, id, until=0)


def change(admin: Person, id: str, **numbers: int) -> None:
    """Write into the record of a task."""
    for name, number in numbers.items():
        admin.cloud.client("dynamodb").update_item(
            TableName=f"{lambdas.STACK}-tasks", Key={"id": {"S": id}}, UpdateExpression="SET #name = :number",
            ExpressionAttributeNames={"#name": name}, ExpressionAttributeValues={":number": {"N": str(number)}},
        )  # fmt: skip


def check_no_parts(admin: Person) -> None:
    """No bucket keeps parts of anything."""
    for name, _ in template.iter_resources("AWS::S3::Bucket"):
        assert "Uploads" not in admin.cloud.client("s3").list_multipart_uploads(Bucket=admin.cloud.refs[name]), name


def interrupt(admin: Person, state: str, name: str, kind: str, begin: Callable[[], str]) -> None:
    """Cancel and interrupt work, separately and together, while a worker stores the parts of a file.

    Its first call starts the upload: a worker that is cancelled meanwhile aborts it itself. An interrupted one leaves
    an upload without parts, which no other worker can attribute; so work is interrupted at the second call, a part.
    """
    worker = admin.cloud.get_function(state)

    def cancel() -> None:
        admin.tasks(kind, "cancel", tid=id)

    def cancel_and_wait() -> None:
        cancel()
        known, end = len(worker.calls), time.monotonic() + HEARTBEAT_WAIT_SECONDS
        while all(call.operation != "dynamodb:UpdateItem" for call in worker.calls[known:]):
            assert time.monotonic() < end, "no heartbeat"
            time.sleep(0.02)
        time.sleep(HEARTBEAT_INTERVAL_SECONDS)  # until the worker has read the answer

    def cut_off() -> None:
        kill_worker(admin, worker, id)

    def both() -> None:
        cut_off()
        cancel()

    cases = ((cancel_and_wait, 1, CANCELED), (cut_off, 2, SUCCEEDED), (both, 2, CANCELED))
    for happens, nth, outcome in cases:
        id = begin()
        once(worker, name, happens, nth)
        admin.cloud.run_executions()
        assert admin.read_outcome(kind, id) == outcome
        check_no_parts(admin)


@contextmanager
def without_machine(admin: Person, name: str) -> Iterator[None]:
    """A state machine does not exist for as long as the context lasts."""
    steps, arn = admin.cloud.client("stepfunctions"), admin.cloud.refs[name]
    known = steps.describe_state_machine(stateMachineArn=arn)
    steps.delete_state_machine(stateMachineArn=arn)
    yield
    made = steps.create_state_machine(
        name=known["name"], definition=known["definition"], roleArn=known["roleArn"]
    )["stateMachineArn"]  # fmt: skip
    assert made == arn


def names(admin: Person, path: str) -> list[str]:
    return sorted(entry["name"] for entry in admin.gets("files/list", path=path, refresh=True)["content"] or [])


def empty_staging(admin: Person) -> None:
    """Lose all that tasks keep there."""
    store, bucket = admin.cloud.client("s3"), admin.cloud.refs["Staging"]
    for stored in store.list_objects_v2(Bucket=bucket).get("Contents", ()):
        store.delete_object(Bucket=bucket, Key=stored["Key"])
