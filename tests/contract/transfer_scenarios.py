"""Copies and moves in the background: whole, cancelled, cut off, retried, shared among workers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from uuid import uuid4

from mangrove.core import deadlines
from mangrove.tasks import enqueue
from tests import servers
from tests.contract.scenarios import Person
from tests.contract.worker_faults import (
    CANCELED,
    LARGE,
    SUCCEEDED,
    change,
    check_no_parts,
    empty_staging,
    interrupt,
    kill_worker,
    names,
    once,
)
from tests.support import lambdas
from tests.support.recorder import THROTTLED, Right

NAME_COUNT = enqueue.MAX_SINGLE_TASKS + 5  # names that are one task, also without the first of them


def run_all(admin: Person) -> None:
    outside = Outside(admin)
    run_transfers(admin, outside)
    run_lists(admin, outside)
    run_removals(admin)
    break_removals(admin)
    break_transfers(admin, outside)
    lose_lists(admin, outside)
    leave_parts(admin, outside)
    share_transfers(admin, outside)


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
    """Transfer many names with one task: from another storage, and within the bucket if the request has no time to
    move them.
    """
    for number in range(NAME_COUNT):
        outside[f"many/{number}"] = b"x"
    requested_names = [str(number) for number in range(NAME_COUNT)]
    for folder in ("/files/many", "/files/more"):
        admin.gets("files/mkdir", path=folder)
    done = [("copy", id) for id in admin.transfer("copy", "/outside/many", "/files/many", *requested_names)]
    admin.cloud.run_executions()
    slow = partial(
        time.sleep, deadlines.PACE_SAMPLE_SECONDS
    )  # at this pace the others would take longer than a request may
    once(admin.cloud.get_function("FilesFunction"), requested_names[0], slow)
    done += [("move", id) for id in admin.transfer("move", "/files/many", "/files/more", *requested_names)]
    admin.cloud.run_executions()
    outcomes = [admin.read_outcome(kind, id) for kind, id in done]
    assert outcomes == [SUCCEEDED] * 2, outcomes
    assert (names(admin, "/files/many"), names(admin, "/files/more")) == ([], sorted(requested_names))


def run_removals(admin: Person) -> None:
    """Remove names and gather files for which a request has no time, at the pace of the first; list folders that
    take longer than a request.
    """
    store, bucket = admin.cloud.client("s3"), admin.cloud.refs["Files"]
    worker = admin.cloud.get_function("FilesFunction")
    requested_names = [f"{number:02}" for number in range(25)]
    for name in requested_names:
        for path in (f"gone/{name}", f"spread/{name}/{name}.txt"):
            store.put_object(Bucket=bucket, Key=path, Body=b"x")
    admin.gets("files/mkdir", path="/files/together")
    slow = partial(time.sleep, deadlines.PACE_SAMPLE_SECONDS)
    once(worker, "gone/00", slow, right="s3:DeleteObject")
    admin.gets("files/remove", dir="/files/gone", names=requested_names)
    once(worker, "spread/00/00.txt", slow, right="s3:DeleteObject")
    admin.gets("files/recursive_move", src_dir="/files/spread", dst_dir="/files/together")
    assert names(admin, "/files/gone") == requested_names[1:]
    assert names(admin, "/files/together") == ["00.txt"]
    for name in ("a", "b", "c", "d", "e"):
        store.put_object(Bucket=bucket, Key=f"spread/{name}/.mangrove", Body=b"")
    worker.on_call = lambda needs: time.sleep(deadlines.REQUEST_WORK_SECONDS / 4 if is_pruning(needs) else 0)
    admin.gets("files/remove_empty_directory", src_dir="/files/spread")
    worker.on_call = None
    tasks = admin.tasks("move", "undone")
    assert sorted(task["name"].partition(" ")[0] for task in tasks) == ["move", "remove", "remove_empty_directory"]
    admin.cloud.run_executions()
    outcomes = [admin.read_outcome("move", task["id"]) for task in tasks]
    assert outcomes == [SUCCEEDED] * 3, outcomes
    assert names(admin, "/files/gone") == []
    assert names(admin, "/files/together") == [f"{name}.txt" for name in requested_names]
    admin.gets("files/remove", dir="/files", names=["gone", "spread", "together"])


def open_removal(admin: Person, folder: str) -> str:
    """Remove more names than a request has time for; return the id of the task for the rest."""
    numbers = [f"{number:02}" for number in range(25)]
    for number in numbers:
        admin.cloud.client("s3").put_object(Bucket=admin.cloud.refs["Files"], Key=f"{folder}/{number}", Body=b"x")
    slow = partial(time.sleep, deadlines.PACE_SAMPLE_SECONDS)
    once(admin.cloud.get_function("FilesFunction"), f"{folder}/00", slow, right="s3:DeleteObject")
    admin.gets("files/remove", dir=f"/files/{folder}", names=numbers)
    (task,) = admin.tasks("move", "undone")
    return str(task["id"])


def break_removals(admin: Person) -> None:
    """The list of a removal is lost; it is repeated, and deleted before its time."""
    id = open_removal(admin, "lost")
    empty_staging(admin)
    admin.cloud.run_executions()
    assert admin.read_outcome("move", id)[0] == "failed"
    admin.tasks("move", "retry", tid=id)
    admin.tasks("move", "delete", tid=id)
    admin.cloud.run_executions()
    assert id not in str([admin.tasks("move", status_key) for status_key in ("undone", "done")])
    admin.gets("files/remove", dir="/files", names=["lost"])


def is_pruning(needs: set[Right]) -> bool:
    """Return True if a call removes the mark of a folder that is empty except for it."""
    return any(right == "s3:DeleteObject" and place.endswith("/.mangrove") for right, place in needs)


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


def lose_lists(admin: Person, outside: Outside) -> None:
    """Remove the plan before it is executed: the next run plans again."""
    outside["listed/a"], outside["listed/b"] = b"a", b"b"
    (id,) = admin.transfer("copy", "/outside", "/files", "listed")
    admin.cloud.get_function("TransferPlan")({"tid": id})
    empty_staging(admin)
    admin.cloud.run_executions()
    assert admin.read_outcome("copy", id)[0] == "failed"
    admin.tasks("copy", "retry", tid=id)
    admin.cloud.run_executions()
    assert admin.read_outcome("copy", id) == SUCCEEDED
    assert names(admin, "/files/listed") == ["a", "b"]


def leave_parts(admin: Person, outside: Outside) -> None:
    """A task that is cancelled while the storage it writes to does not answer: the sweep drops what it began."""
    cloud, bucket = admin.cloud, admin.cloud.refs["Files"]
    worker, settler = cloud.get_function("TransferMove"), cloud.get_function("TransferSettle")
    outside["left/large"] = LARGE
    (id,) = admin.transfer("copy", "/outside", "/files", "left")

    def cut_off() -> None:
        kill_worker(admin, worker, id)
        admin.tasks("copy", "cancel", tid=id)

    once(worker, "large", cut_off, nth=2)
    settler.refuse = lambda needs: THROTTLED if any(place.startswith(bucket) for _, place in needs) else ""
    cloud.run_executions()
    settler.refuse = None
    assert admin.read_outcome("copy", id) == CANCELED
    assert cloud.client("s3").list_multipart_uploads(Bucket=bucket)["Uploads"]
    cloud.get_function("SweepFunction")({})
    check_no_parts(admin)


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
    stored = records.get_item(TableName=f"{lambdas.STACK}-tasks", Key=key)["Item"]["cursor"]["S"]
    cursor = json.loads(stored)
    text = json.dumps(cursor | {"handed": cursor["entry_count"]})
    records.update_item(
        TableName=f"{lambdas.STACK}-tasks", Key=key, UpdateExpression="SET #name = :text",
        ExpressionAttributeNames={"#name": "cursor"}, ExpressionAttributeValues={":text": {"S": text}},
    )  # fmt: skip
