"""Background work: whole, cancelled, failed, cut off, retried, deleted, swept.

Each is done once by every machine, so that the workers of each do all that they may do.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from moto.s3.models import s3_backends

from mangrove.records.audit import make_audit_key
from mangrove.standalone import template
from mangrove.tasks.core import file_copy
from tests.contract import index_scenarios, transfer_scenarios
from tests.contract.scenarios import Person, lose_uploads
from tests.contract.transfer_scenarios import NAME_COUNT
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
    without_machine,
)
from tests.support import lambdas
from tests.support.recorder import THROTTLED

DOWNLOAD = bytes(file_copy.IN_FLIGHT_BYTES + 1)  # goes in parts that come from an address


def run_all(admin: Person) -> None:
    transfer_scenarios.run_all(admin)
    run_downloads(admin)
    run_archives(admin)
    run_packing(admin)
    index_scenarios.run_all(admin)
    follow_stream(admin)
    call_for_missing_tasks(admin)
    refuse_starts(admin)
    sweep(admin)


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
        request = {"path": "/files/fetched", "urls": urls, "tool": "SimpleHttp", "delete_policy": "delete_always"}
        return open_tasks(admin, "files/add_offline_download", **request)

    ids = begin("/small", "/large", "/later")
    admin.cloud.run_executions()
    assert [admin.read_outcome("offline_download", id)[0] for id in ids] == ["succeeded", "succeeded", "failed"]
    files["/later"] = b"later"
    admin.tasks("offline_download", "retry", tid=ids[2])
    admin.cloud.run_executions()
    assert names(admin, "/files/fetched") == ["large", "later", "small"]
    interrupt(admin, "DownloadPoll", "large", "offline_download", lambda: begin("/large")[0])


def make_archive(broken: bool = False) -> bytes:
    """Make an archive with a small and a large member, whose last bytes can be damaged."""
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
        request = {
            "src_dir": "/files/packed",
            "dst_dir": "/files/unpacked",
            "put_into_new_dir": True,
            "overwrite": True,
        }
        (id,) = open_tasks(admin, "files/archive_decompress", **request, name=[name], cache_full=cached)
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


def run_packing(admin: Person) -> None:
    """Files that are packed into an archive in staging, which is stored from there."""
    cloud, store, files = admin.cloud, admin.cloud.client("s3"), admin.cloud.refs["Files"]
    for name, content in (("small", b"small"), ("large", LARGE * 2), ("sub/deep/x", b"x")):
        store.put_object(Bucket=files, Key=f"loose/{name}", Body=content)
    policies = {"write_conflict_policy": "all", "put_conflict_policy": "all"}
    mixed = json.dumps({"paths": "mixed:/files/archives\nmixed:/texts"} | policies)
    admin.gets("storages/create", mount_path="/mixed", driver="Alias", addition=mixed)
    for folder in ("/files/archives", "/pair/archives"):
        admin.gets("files/mkdir", path=folder)

    def begin(name: str, folder: str = "/files/archives") -> str:
        admin.gets("files/remove", dir="/files/archives", names=[name])
        request: dict[str, Any] = {
            "src_dir": "/files/loose",
            "dst_dir": folder,
            "names": ["small", "large", "sub"],
            "name": name,
        }
        id: str = admin.gets("files/archive_compress", **request)["task"]["id"]
        return id

    ids = [begin("a.zip"), begin("b.tar.gz"), begin("c.zip", "/pair/archives")]
    cloud.run_executions()
    assert [admin.read_outcome("compress", id) for id in ids] == [SUCCEEDED] * 3
    admin.gets("files/mkdir", path="/mixed/new")
    begin("d.zip", "/mixed/new")
    admin.gets("files/remove", dir="/mixed", names=["new"])
    cloud.run_executions()  # makes the folder again in both storages, though one of them takes no file
    for name in ("cut.zip", "archives/cut.zip"):  # in staging, and then in the bucket
        interrupt(admin, "CompressPack", name, "compress", lambda: begin("cut.zip"))
    taken = begin("taken.zip")
    store.put_object(Bucket=files, Key="archives/taken.zip", Body=b"meanwhile")
    cloud.run_executions()
    assert admin.read_outcome("compress", taken)[0] == "failed"
    admin.gets("files/remove", dir="/files/archives", names=["taken.zip"])
    admin.tasks("compress", "retry", tid=taken)
    cloud.run_executions()
    assert admin.read_outcome("compress", taken) == SUCCEEDED
    pack_for_visitor(admin)
    leave_archive(admin, begin("left.zip"))
    restart_packing(admin, begin("again.zip"), "again.zip")
    lost, removed = begin("lost.zip"), begin("removed.zip")
    cloud.get_function("CompressPlan")({"tid": lost})
    empty_staging(admin)
    admin.tasks("compress", "delete", tid=removed)
    cloud.run_executions()
    assert admin.read_outcome("compress", lost)[0] == "failed"
    assert "removed.zip" not in names(admin, "/files/archives")


def pack_for_visitor(admin: Person) -> None:
    """A folder of a share link, larger than an answer: its visitor waits for a task, and is sent to the archive."""
    id = admin.gets("shares/create", files=["/files/loose"], pwd="secret")["id"]
    visitor = Person(admin.cloud)
    packed = {"dir": f"/@s/{id}", "password": "secret"}
    assert visitor.asks("files/zip", dir=f"/@s/{id}", names=["small"], password="wrong")["code"] == 403
    small = visitor.gets("files/zip", names=["small"], **packed)
    assert small["task"] is None and small["url"].endswith(f"/sd/{id}/?zip=&names=small&pwd=secret")
    links = [visitor.gets("files/zip", names=[], **packed) for _ in range(2)]

    def fetch(link: dict[str, Any], password: str = "secret") -> dict[str, Any]:
        query = f"zip={link['task']['id']}&pwd={password}"
        assert link["url"].endswith(f"/sd/{id}/?zip={link['task']['id']}&pwd=secret")
        return visitor.raw("downloads/sd_get", {"http": {"path": f"/sd/{id}/"}, "rawQueryString": query})

    refer_to_page(visitor, id)
    waiting = fetch(links[0])
    assert (waiting["statusCode"], waiting["headers"]["retry-after"]) == (404, "5")
    admin.tasks("compress", "cancel", tid=links[1]["task"]["id"])
    admin.cloud.run_executions()
    assert fetch(links[0], "wrong")["statusCode"] == 403
    assert fetch(links[1])["statusCode"] == 404 and "retry-after" not in fetch(links[1])["headers"]
    answer = fetch(links[0])
    assert answer["statusCode"] == 302
    content = httpx.get(answer["headers"]["location"], trust_env=False, timeout=60).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert {info.filename: info.file_size for info in archive.infolist()} == {
            "large": 2 * len(LARGE), "small": 5, "sub/": 0, "sub/deep/": 0, "sub/deep/x": 1
        }  # fmt: skip


def refer_to_page(visitor: Person, id: str) -> None:
    """The address of a ZIP file that only a task can make, in a mail: it leads to the page that requests one."""
    for path in (f"{id}/", id):
        event = {"http": {"path": f"/sd/{path}"}, "rawQueryString": "zip&pwd=secret"}
        page = visitor.raw("downloads/sd_get", event | {"headers": {"accept": "text/html,*/*"}})
        text = visitor.raw("downloads/sd_get", event | {"headers": {"accept": "*/*"}})
        for answer in (page, text):
            assert (answer["statusCode"], answer["headers"]["cache-control"]) == (413, "no-store")
            url = re.fullmatch(r'<(https://\S+)>; rel="alternate"; type="text/html"', answer["headers"]["link"])
            assert url is not None and url[1].rstrip("/").endswith(f"/@s/{id}") and "secret" not in answer["body"]
            assert url[1] in answer["body"]
        assert (
            f'<a href="{url[1]}">' in page["body"]
            and "default-src 'none'" in page["headers"]["content-security-policy"]
        )
        assert text["body"].count("\n") == 1 and text["headers"]["content-type"].startswith("text/plain")


def restart_packing(admin: Person, id: str, name: str) -> None:
    """The worker and the execution of a task end in the middle of the archive: the sweep starts it again."""
    admin.cloud.get_function("CompressPlan")({"tid": id})
    worker = admin.cloud.get_function("CompressPack")
    once(worker, name, lambda: kill_worker(admin, worker, id), nth=2)
    with pytest.raises(lambdas.FunctionError):
        worker({"tid": id})
    stop_executions(admin, [id])
    admin.cloud.get_function("SweepFunction")({})
    admin.cloud.run_executions()
    assert admin.read_outcome("compress", id) == SUCCEEDED
    check_no_parts(admin)


def leave_archive(admin: Person, id: str) -> None:
    """A task that is cancelled while the bucket does not answer: the sweep drops the parts of the archive there."""
    worker, settler = admin.cloud.get_function("CompressPack"), admin.cloud.get_function("CompressSettle")
    bucket = admin.cloud.refs["Files"]

    def cut_off() -> None:
        kill_worker(admin, worker, id)
        admin.tasks("compress", "cancel", tid=id)

    once(worker, "archives/left.zip", cut_off, nth=2)
    settler.refuse = lambda needs: THROTTLED if any(place.startswith(bucket) for _, place in needs) else ""
    admin.cloud.run_executions()
    settler.refuse = None
    assert admin.read_outcome("compress", id) == CANCELED
    admin.cloud.get_function("SweepFunction")({})
    check_no_parts(admin)


def read_image(admin: Person, id: str) -> dict[str, Any]:
    """The record of a task as the stream of its table has it, without its sealed values."""
    item = admin.cloud.client("dynamodb").get_item(TableName=admin.cloud.refs["TaskRecords"], Key={"id": {"S": id}})
    return {name: value for name, value in item["Item"].items() if "B" not in value}


def follow_stream(admin: Person) -> None:
    """The stream of the task records: a new task, one that waits for the slot of another, and the end of both."""
    cloud = admin.cloud
    follow = cloud.get_function("TaskStreamFunction")
    ids = [admin.sends(f"/files/{name}", b"x", as_task="true")["data"]["task"]["id"] for name in ("new", "waiting")]
    new, waiting = (read_image(admin, id) for id in ids)
    follow({"Records": [{"eventName": "INSERT", "dynamodb": {"NewImage": new}}]})
    view = json.loads(waiting["view"]["S"]) | {"waiting": 1.0}
    cloud.client("dynamodb").update_item(
        TableName=cloud.refs["TaskRecords"], Key={"id": {"S": ids[1]}}, UpdateExpression="SET #view = :view",
        ExpressionAttributeNames={"#view": "view"}, ExpressionAttributeValues={":view": {"S": json.dumps(view)}},
    )  # fmt: skip
    follow({"Records": [{"eventName": "MODIFY", "dynamodb": {"NewImage": new, "OldImage": new}}]})
    names_started = [
        execution["name"]
        for execution in cloud.client("stepfunctions").list_executions(
            stateMachineArn=cloud.refs["TransferMachine"], statusFilter="RUNNING"
        )["executions"]
    ]
    assert sum(name.startswith(ids[0]) for name in names_started) == 1
    assert sum(name.startswith(ids[1]) for name in names_started) == 2, "the one that waited was started again"
    cloud.run_executions()
    ended = [(read_image(admin, id), before) for id, before in zip(ids, (new, waiting), strict=True)]
    changes = [{"NewImage": image, "OldImage": before} for image, before in ended]
    follow({"Records": [{"eventName": "MODIFY", "dynamodb": change} for change in changes]})


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
    with without_machine(admin, "TransferMachine"):
        numbers = list(map(str, range(NAME_COUNT)))
        answers = [
            admin.sends("/files/refused", b"x", as_task="true"),
            admin.asks("files/copy", src_dir="/outside", dst_dir="/files", names=["whole"], overwrite=True),
            admin.asks("files/copy", src_dir="/outside/many", dst_dir="/files", names=numbers),
        ]
    assert [(answer["code"], answer["message"]) for answer in answers] == [(500, "the task cannot be started")] * 3
    assert [admin.tasks(kind, "undone") for kind in ("upload", "copy")] == [[], []]


def sweep(admin: Person) -> None:
    """Check that old work is removed and young work stays; work whose execution ended is started once more."""
    cloud = admin.cloud
    store, records, staging = cloud.client("s3"), cloud.client("dynamodb"), cloud.refs["Staging"]
    for key in ("young", "old"):
        store.put_object(Bucket=staging, Key=f"{key}/body", Body=b"x")
    s3_backends["123456789012"]["aws"].buckets[staging].keys["old/body"].last_modified -= timedelta(days=2)
    expired, forgotten = keep_old_actions(admin)
    admin.raw("settings/save", {"body": json.dumps([{"key": "task_retention_days", "value": "0"}])})
    stalled = stall_tasks(admin)
    store.put_object(Bucket=cloud.refs["Index"], Key="999/names.parquet", Body=b"of a storage that is no more")
    lose_uploads(admin)
    records.delete_item(TableName=cloud.refs["Counters"], Key={"key": {"S": "once#daily sweep"}})  # a day later
    cloud.get_function("SweepFunction")({})
    check_no_parts(admin)
    assert "999" not in {
        stored["Key"].partition("/")[0] for stored in store.list_objects_v2(Bucket=cloud.refs["Index"])["Contents"]
    }
    storage_ids = {stored["Key"].partition("/")[0] for stored in store.list_objects_v2(Bucket=staging)["Contents"]}
    assert "young" in storage_ids
    assert "old" not in storage_ids
    table = cloud.refs["Audit"]
    assert "Item" in records.get_item(TableName=table, Key=expired), "DynamoDB deletes what has expired"
    assert "Item" not in records.get_item(TableName=table, Key=forgotten), "it is older than audit_days"
    assert [admin.tasks(kind, "done") for kind, _ in stalled] == [[]] * len(stalled)
    cloud.run_executions()
    assert all(admin.read_outcome(kind, id)[0] in ("succeeded", "failed") for kind, id in stalled)
    # not that no run is under way: the scenarios change storages, and the clock may open another one
    assert set(admin.gets("search/progress")) == {"obj_count", "is_done", "last_done_time", "error"}


def keep_old_actions(admin: Person) -> tuple[dict[str, Any], dict[str, Any]]:
    """Record an action that has expired, and one from when actions were kept for longer; return their keys."""
    now, keys = datetime.now(UTC), []
    for days, end in ((120, -1), (100, 300)):
        moment = now - timedelta(days=days)
        key = {"month": {"S": f"{moment:%Y-%m}"}, "key": {"S": f"{make_audit_key(moment.timestamp())}-00000000"}}
        item = key | {name: {"S": "old"} for name in ("username", "address", "action", "target")}
        item["expires"] = {"N": str(int((now + timedelta(days=end)).timestamp()))}
        admin.cloud.client("dynamodb").put_item(TableName=admin.cloud.refs["Audit"], Item=item)
        keys.append(key)
    return keys[0], keys[1]


def stall_tasks(admin: Person) -> Sequence[tuple[str, str]]:
    """Make a task of each machine whose execution ended long ago without settling it."""
    request = {"path": "/files", "urls": [admin.cloud.serve_files({}) + "/nothing"], "tool": "SimpleHttp"}
    tasks = [("upload", admin.sends("/files/stalled", b"x", as_task="true")["data"]["task"]["id"])]
    tasks += [("offline_download", id) for id in open_tasks(admin, "files/add_offline_download", **request)]
    packed = {"src_dir": "/files/packed", "dst_dir": "/files/unpacked", "name": ["whole.zip"]}
    tasks += [("decompress", id) for id in open_tasks(admin, "files/archive_decompress", **packed)]
    packing: dict[str, Any] = {
        "src_dir": "/files/packed",
        "dst_dir": "/files/unpacked",
        "names": [],
        "name": "stalled.zip",
    }
    tasks.append(("compress", admin.gets("files/archive_compress", **packing)["task"]["id"]))
    tasks.append(("move", transfer_scenarios.open_removal(admin, "stalled")))
    index_scenarios.stall(admin)
    stop_executions(admin, [*(id for _, id in tasks), index_scenarios.TASK])
    return tasks


def stop_executions(admin: Person, task_ids: Sequence[str]) -> None:
    """Stop all executions; those of the tasks ended long ago."""
    steps = admin.cloud.client("stepfunctions")
    for name, _ in template.iter_resources("AWS::Serverless::StateMachine"):
        running = steps.list_executions(stateMachineArn=admin.cloud.refs[name], statusFilter="RUNNING")
        for execution in running["executions"]:
            steps.stop_execution(executionArn=execution["executionArn"])
    for id in task_ids:
        image = read_image(admin, id)
        admin.cloud.get_function("TaskStreamFunction")(
            {"Records": [{"eventName": "INSERT", "dynamodb": {"NewImage": image}}]}
        )
        change(admin, id, created=1, until=0)
