"""What goes on in the background: whole, cancelled, failed, cut off, retried, deleted, swept.

Each is done once by every machine, so that the workers of each do all that they may do.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from moto.s3.models import s3_backends

from mangrove import deadlines
from mangrove.local import template
from mangrove.tasks import file_copy, openings
from mangrove.tasks.leases import HEARTBEAT_SECONDS
from tests import lambdas, servers
from tests.contract import index_scenarios
from tests.contract.scenarios import Person, lose_uploads
from tests.recorder import Right

LARGE = bytes(file_copy.WHOLE + 1)  # goes in parts
DOWNLOAD = bytes(file_copy.PART + 1)  # the same, from an address
MOST_SECONDS = 60  # until a worker's next heartbeat
MANY = openings.EACH + 5  # names that are one task, also without the first of them
CANCELED = ("canceled", "context canceled")
SUCCEEDED = ("succeeded", "")


def run_all(admin: Person) -> None:
    outside = Outside(admin)
    run_transfers(admin, outside)
    run_lists(admin, outside)
    break_transfers(admin, outside)
    share_transfers(admin, outside)
    run_downloads(admin)
    run_archives(admin)
    index_scenarios.run_all(admin)
    call_for_missing_tasks(admin)
    refuse_starts(admin)
    sweep(admin)


class Outside:
    """A bucket outside the deployment, which the functions reach with its own keys and need no rights for."""

    def __init__(self, admin: Person) -> None:
        self.store = admin.cloud.client("s3")
        self.name = f"outside-{uuid4().hex}"
        self.store.create_bucket(Bucket=self.name)
        addition = servers.s3_options(admin.cloud.aws[1], self.name)
        admin.gets("storages/create", mount_path="/outside", driver="S3", addition=json.dumps(addition))

    def __setitem__(self, key: str, content: bytes) -> None:
        self.store.put_object(Bucket=self.name, Key=key, Body=content)


def run_transfers(admin: Person, outside: Outside) -> None:
    """From elsewhere, to elsewhere, within the provider, from staging."""
    cloud = admin.cloud
    for path, content in (("a.txt", b"a"), ("sub/large", LARGE), ("sub/deep/b.txt", b"b")):
        outside[f"tree/{path}"] = content
    addition = json.dumps({"bucket": cloud.refs["Files"], "region": "us-east-1", "root_folder_path": "/other root"})
    admin.gets("storages/create", mount_path="/within", driver="S3", addition=addition)
    wrong = admin.sends("/files/wrong.txt", b"staged", as_task="true", x_file_md5="0" * 32)
    assert wrong["code"] == 400
    staged = ("/files/staged.txt", "/pair/more/staged.txt")
    done = [("upload", admin.sends(path, b"staged", as_task="true")["data"]["task"]["id"]) for path in staged]
    cloud.run_executions()
    ways = (("copy", "/outside", "/files"), ("copy", "/files", "/within"), ("move", "/within", "/outside/back"))
    admin.gets("files/mkdir", path="/outside/back")
    for verb, source, target in ways:
        done += [(verb, id) for id in admin.transfer(verb, source, target, "tree")]
        cloud.run_executions()
    done += [("copy", id) for id in admin.transfer("copy", "/outside", "/files", "tree", merge=True)]
    structure = {"url_structure": "f:https://example.com/f", "writable": True}
    admin.gets("storages/create", mount_path="/texts", driver="UrlTree", addition=json.dumps(structure))
    outside["folders/empty/.mangrove"] = b""
    done += [("copy", id) for id in admin.transfer("copy", "/outside", "/texts", "folders")]
    outside["held/deep/c.txt"] = b"c"
    done += [("copy", id) for id in admin.transfer("copy", "/outside", "/pair", "held")]
    cloud.run_executions()
    assert [admin.read_outcome(kind, id) for kind, id in done] == [SUCCEEDED] * 8
    assert names(admin, "/pair/held/deep") == names(admin, "/files/two/held/deep") == ["c.txt"]
    assert names(admin, "/outside/back/tree/sub") == ["deep", "large"]
    assert (names(admin, "/within"), names(admin, "/texts/folders")) == ([], ["empty"])


def run_lists(admin: Person, outside: Outside) -> None:
    """Many names are one task: from elsewhere, and within the bucket when there is no time to move them at once."""
    for number in range(MANY):
        outside[f"many/{number}"] = b"x"
    wanted = [str(number) for number in range(MANY)]
    for folder in ("/files/many", "/files/more"):
        admin.gets("files/mkdir", path=folder)
    done = [("copy", id) for id in admin.transfer("copy", "/outside/many", "/files/many", *wanted)]
    admin.cloud.run_executions()
    slow = partial(time.sleep, deadlines.LOOK_SECONDS)  # at this pace the others would take longer than a request may
    once(admin.cloud.get_function("FilesFunction"), wanted[0], slow)
    done += [("move", id) for id in admin.transfer("move", "/files/many", "/files/more", *wanted)]
    admin.cloud.run_executions()
    outcomes = [admin.read_outcome(kind, id) for kind, id in done]
    assert outcomes == [SUCCEEDED] * 2, outcomes
    assert (names(admin, "/files/many"), names(admin, "/files/more")) == ([], sorted(wanted))


def once(worker: lambdas.Function, name: str, happens: Callable[[], object], nth: int = 1) -> None:
    """Let it happen at the worker's nth call that stores an object of that name: the first begins it."""
    calls = count(1)

    def heed(needs: set[Right]) -> None:
        if any(right == "s3:PutObject" and place.endswith(f"/{name}") for right, place in needs) and next(calls) == nth:
            worker.on_call = None
            happens()

    worker.on_call = heed


def kill_worker(admin: Person, worker: lambdas.Function, id: str) -> None:
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
    """Work that is cancelled, cut off, and both, while a worker stores the parts of something.

    Its first call begins the upload: a worker that is cancelled meanwhile aborts it itself. One that is cut off there
    leaves an upload without parts, and no other can know whose it is; so they are cut off at the second, a part.
    """
    worker = admin.cloud.get_function(state)

    def cancel() -> None:
        admin.tasks(kind, "cancel", tid=id)

    def cancel_and_wait() -> None:
        cancel()
        known, end = len(worker.calls), time.monotonic() + MOST_SECONDS
        while all(call.operation != "dynamodb:UpdateItem" for call in worker.calls[known:]):
            assert time.monotonic() < end, "no heartbeat"
            time.sleep(0.02)
        time.sleep(HEARTBEAT_SECONDS)  # until the worker has read the answer

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


def break_transfers(admin: Person, outside: Outside) -> None:
    """Also a source that changes, a failure that is retried, a task that is removed before its time."""
    outside["broken/whole"], outside["broken/other"], outside["whole"] = LARGE, b"o", LARGE

    def begin() -> str:
        (id,) = admin.transfer("copy", "/outside", "/files", "broken", overwrite=True)
        return id

    interrupt(admin, "TransferMove", "whole", "copy", begin)
    changed = begin()
    once(admin.cloud.get_function("TransferMove"), "whole", lambda: outside.__setitem__("broken/whole", b"new"))
    admin.cloud.run_executions()
    assert admin.read_outcome("copy", changed)[0] == "failed"
    check_no_parts(admin)
    admin.tasks("copy", "clear_succeeded")
    admin.tasks("copy", "retry_failed")
    (id,) = admin.transfer("move", "/outside", "/files", "back")
    admin.tasks("move", "delete", tid=id)
    admin.cloud.run_executions()
    assert admin.read_outcome("copy", changed) == SUCCEEDED
    assert id not in str([admin.tasks("move", status_key) for status_key in ("undone", "done")])


def share_transfers(admin: Person, outside: Outside) -> None:
    """Some entries of a transfer are copied by a worker of their own, as those of a large one are: into a storage, out
    of it, and beside a second one; cancelled between, and of a source that changes."""
    worker = admin.cloud.get_function("TransferPart")
    for name in ("shared/a", "shared/sub/b", "shared/large"):
        outside[name] = LARGE if name.endswith("large") else b"x"

    def share(kind: str, *way: str) -> str:
        """Plan by hand and hand out all; the id."""
        (id,) = admin.transfer(kind, *way, overwrite=True)
        while admin.cloud.get_function("TransferPlan")({"tid": id})["more"]:
            pass
        hand_out(admin, id)
        return id

    def work(id: str) -> None:
        while worker({"tid": id, "round": 0, "part": 0})["more"]:
            pass

    outside["shared bare/empty/.mangrove"] = b""
    ways = (("copy", "/outside", "/files", "shared"), ("copy", "/outside", "/pair", "shared"),
            ("copy", "/outside", "/texts", "shared bare"), ("move", "/files", "/outside/back", "shared"))  # fmt: skip
    for way in ways:
        id = share(*way)
        change(admin, id, created=1, until=0)
        work(id)
        admin.cloud.run_executions()
        assert admin.read_outcome(way[0], id) == SUCCEEDED
    events: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: admin.tasks("copy", "cancel", tid=id), "canceled"),
        (lambda: outside.__setitem__("shared/large", b"new"), "failed"),
    )
    for happens, outcome in events:
        id = share("copy", "/outside", "/files", "shared")
        once(worker, "large", happens)
        work(id)
        admin.cloud.run_executions()
        assert admin.read_outcome("copy", id)[0] == outcome
        check_no_parts(admin)


def hand_out(admin: Person, id: str) -> None:
    """Have all entries of a planned transfer copied by workers of their own."""
    records, key = admin.cloud.client("dynamodb"), {"id": {"S": id}}
    found = records.get_item(TableName=f"{lambdas.STACK}-tasks", Key=key)["Item"]["cursor"]["S"]
    cursor = json.loads(found)
    text = json.dumps(cursor | {"handed": cursor["entry_count"]})
    records.update_item(
        TableName=f"{lambdas.STACK}-tasks", Key=key, UpdateExpression="SET #name = :text",
        ExpressionAttributeNames={"#name": "cursor"}, ExpressionAttributeValues={":text": {"S": text}},
    )  # fmt: skip


def open_tasks(admin: Person, sample: str, **body: Any) -> list[str]:
    """Ids of the tasks that a request has opened."""
    data = admin.gets(sample, **body)
    return [task["id"] for task in data.get("tasks") or data["task"]]


def run_downloads(admin: Person) -> None:
    """From an address into staging, and on from there."""
    files = {"/small": b"small", "/large": DOWNLOAD}
    address = admin.cloud.serve_files(files)
    admin.raw("settings/save", {"body": json.dumps([{"key": "offline_download_allowed_hosts", "value": "127.0.0.1"}])})

    def begin(*paths: str) -> list[str]:
        urls = [address + path for path in paths]
        wanted = {"path": "/files/fetched", "urls": urls, "tool": "SimpleHttp", "delete_policy": "delete_always"}
        return open_tasks(admin, "files/add_offline_download", **wanted)

    ids = begin("/small", "/large", "/later")
    admin.cloud.run_executions()
    assert [admin.read_outcome("offline_download", id)[0] for id in ids] == ["succeeded", "succeeded", "failed"]
    files["/later"] = b"later"
    admin.tasks("offline_download", "retry", tid=ids[2])
    admin.cloud.run_executions()
    assert names(admin, "/files/fetched") == ["large", "later", "small"]
    interrupt(admin, "DownloadPoll", "large", "offline_download", lambda: begin("/large")[0])


def make_archive(broken: bool = False) -> bytes:
    """An archive with a small and a large member, whose last bytes may be others than it was made of."""
    content, large = io.BytesIO(), LARGE * 2 + b"the end"
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("in/small", "small")
        archive.writestr("in/large", large)
    return content.getvalue().replace(b"the end", b"no more", 1) if broken else content.getvalue()


def run_archives(admin: Person) -> None:
    """Out of an archive into staging, and on from there."""
    store, files = admin.cloud.client("s3"), admin.cloud.refs["Files"]
    for name, broken in (("whole.zip", False), ("broken.zip", True)):
        store.put_object(Bucket=files, Key=f"packed/{name}", Body=make_archive(broken))

    def begin(name: str, cached: bool) -> str:
        wanted = {"src_dir": "/files/packed", "dst_dir": "/files/unpacked", "put_into_new_dir": True, "overwrite": True}
        (id,) = open_tasks(admin, "files/archive_decompress", **wanted, name=[name], cache_full=cached)
        return id

    admin.gets("files/mkdir", path="/files/unpacked")
    ids = [begin("whole.zip", True), begin("broken.zip", False)]
    admin.cloud.run_executions()
    assert [admin.read_outcome("decompress", id)[0] for id in ids] == ["succeeded", "failed"]
    admin.tasks("decompress", "retry", tid=ids[1])
    admin.cloud.run_executions()
    assert names(admin, "/files/unpacked/whole/in") == ["large", "small"]
    assert names(admin, "/files/unpacked/broken/in") == ["small"]
    interrupt(admin, "DecompressPlan", "archive", "decompress", lambda: begin("whole.zip", True))
    ids = [begin("broken.zip", False), begin("broken.zip", False)]
    assert admin.cloud.get_function("DecompressPlan")({"tid": ids[0]})["more"] is False
    store.delete_object(Bucket=files, Key="packed/broken.zip")
    with pytest.raises(lambdas.FunctionError, match="object not found"):
        admin.cloud.get_function("DecompressExtract")({"tid": ids[0]})
    admin.cloud.run_executions()
    assert [admin.read_outcome("decompress", id) for id in ids] == [("failed", "object not found")] * 2


def call_for_missing_tasks(admin: Person) -> None:
    """A worker that is called for a task that is not there any more."""
    for name, resource in template.iter_resources("AWS::Serverless::Function"):
        worker = admin.cloud.get_function(name)
        if "Handler" not in resource["Properties"]:
            continue
        if name.endswith("Settle"):
            assert worker({"tid": "x" * 21})["more"] is False
            continue
        if name in ("IndexPart", "TransferPart"):  # which hold no task
            worker({"tid": "x" * 21, "round": 1, "part": 0})
            continue
        with pytest.raises(lambdas.FunctionError) as caught:
            worker({"tid": "x" * 21})
        assert caught.value.kind == "Superseded"


def refuse_starts(admin: Person) -> None:
    """The machine is not there when a task is opened: the answer says so, and nothing of the task stays."""
    steps, arn = admin.cloud.client("stepfunctions"), admin.cloud.refs["TransferMachine"]
    known = steps.describe_state_machine(stateMachineArn=arn)
    steps.delete_state_machine(stateMachineArn=arn)
    answers = [
        admin.sends("/files/refused", b"x", as_task="true"),
        admin.asks("files/copy", src_dir="/outside", dst_dir="/files", names=["whole"], overwrite=True),
        admin.asks("files/copy", src_dir="/outside/many", dst_dir="/files", names=list(map(str, range(MANY)))),
    ]
    made = steps.create_state_machine(
        name=known["name"], definition=known["definition"], roleArn=known["roleArn"]
    )["stateMachineArn"]  # fmt: skip
    assert made == arn
    assert [(answer["code"], answer["message"]) for answer in answers] == [(500, "the task cannot be started")] * 3
    assert [admin.tasks(kind, "undone") for kind in ("upload", "copy")] == [[], []]


def sweep(admin: Person) -> None:
    """What is old goes, what is young stays; work whose execution ended is started once more."""
    cloud = admin.cloud
    store, records, staging = cloud.client("s3"), cloud.client("dynamodb"), cloud.refs["Staging"]
    for key in ("young", "old"):
        store.put_object(Bucket=staging, Key=f"{key}/body", Body=b"x")
    s3_backends["123456789012"]["aws"].buckets[staging].keys["old/body"].last_modified -= timedelta(days=2)
    for table, keys in (("sessions", ["jti"]), ("counters", ["key"]), ("locks", ["tree", "key"])):
        item = {key: {"S": "old"} for key in keys} | {"expires": {"N": "1"}}
        records.put_item(TableName=f"{lambdas.STACK}-{table}", Item=item)
    admin.raw("settings/save", {"body": json.dumps([{"key": "task_retention_days", "value": "0"}])})
    stalled = stall_tasks(admin)
    store.put_object(Bucket=cloud.refs["Index"], Key="999/names.parquet", Body=b"of a storage that is no more")
    lose_uploads(admin)
    cloud.get_function("SweepFunction")({})
    check_no_parts(admin)
    assert "999" not in {
        one["Key"].partition("/")[0] for one in store.list_objects_v2(Bucket=cloud.refs["Index"])["Contents"]
    }
    kept = {one["Key"].partition("/")[0] for one in store.list_objects_v2(Bucket=staging)["Contents"]}
    assert "young" in kept
    assert "old" not in kept
    for table, key in (("sessions", "jti"), ("counters", "key")):
        assert "Item" not in records.get_item(TableName=f"{lambdas.STACK}-{table}", Key={key: {"S": "old"}})
    assert [admin.tasks(kind, "done") for kind, _ in stalled] == [[]] * len(stalled)
    cloud.run_executions()
    assert all(admin.read_outcome(kind, id)[0] in ("succeeded", "failed") for kind, id in stalled)
    # not that no run is under way: the scenarios change storages, and the clock may open another one
    assert set(admin.gets("search/progress")) == {"obj_count", "is_done", "last_done_time", "error"}


def stall_tasks(admin: Person) -> Sequence[tuple[str, str]]:
    """A task of each machine whose execution ended long ago without a word."""
    wanted = {"path": "/files", "urls": [admin.cloud.serve_files({}) + "/nothing"], "tool": "SimpleHttp"}
    found = [("upload", admin.sends("/files/stalled", b"x", as_task="true")["data"]["task"]["id"])]
    found += [("offline_download", id) for id in open_tasks(admin, "files/add_offline_download", **wanted)]
    packed = {"src_dir": "/files/packed", "dst_dir": "/files/unpacked", "name": ["whole.zip"]}
    found += [("decompress", id) for id in open_tasks(admin, "files/archive_decompress", **packed)]
    index_scenarios.stall(admin)
    steps = admin.cloud.client("stepfunctions")
    for name, _ in template.iter_resources("AWS::Serverless::StateMachine"):
        running = steps.list_executions(stateMachineArn=admin.cloud.refs[name], statusFilter="RUNNING")
        for execution in running["executions"]:
            steps.stop_execution(executionArn=execution["executionArn"])
    for id in [*(id for _, id in found), index_scenarios.TASK]:
        change(admin, id, created=1, until=0)
    return found


def names(admin: Person, path: str) -> list[str]:
    return sorted(entry["name"] for entry in admin.gets("files/list", path=path, refresh=True)["content"] or [])
