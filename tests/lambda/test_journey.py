"""Every route and state, and a user's way from signing in to downloading, through the functions as they are built."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.contract.api.multipart_client import format_crc32
from tests.contract.scenarios import Person
from tests.contract.test_events import run_samples
from tests.contract.transfer_scenarios import Outside
from tests.contract.worker_faults import LARGE, SUCCEEDED, check_no_parts, names, once
from tests.support import lambdas
from tests.support.lambda_answers import read_metrics

SMALL = b"hello from outside"


def test_every_sample_runs_through_the_functions_with_their_rights_alone(cloud: lambdas.Cloud) -> None:
    run_samples(cloud)


def test_the_whole_journey(cloud: lambdas.Cloud) -> None:
    travel(cloud)


def test_the_whole_journey_on_dynamodb_local(cloud_on_dynamodb_local: lambdas.Cloud) -> None:
    travel(cloud_on_dynamodb_local)


def travel(cloud: lambdas.Cloud) -> None:
    admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
    outside = Outside(admin)
    for path, content in (("a.txt", SMALL), ("sub/large", LARGE)):
        outside[f"tree/{path}"] = content
    assert admin.puts("/files/journey/put.txt", b"bytes") == 200
    send_in_parts(admin, "/files/journey/parts.bin", LARGE)
    copy(admin)
    copy_and_delete_midway(admin)
    assert names(admin, "/files/journey") == ["again", "parts.bin", "put.txt", "tree"]
    assert names(admin, "/files/journey/tree/sub") == ["large"]
    search(admin)
    assert download(admin, "/files/journey/tree/a.txt") == SMALL
    assert download(admin, "/files/journey/parts.bin") == LARGE
    assert read_metrics(cloud.get_function("TransferSettle"), "TasksEnded")


def send_in_parts(admin: Person, path: str, content: bytes) -> None:
    """Straight into the bucket, with requests that the function signs."""
    headers = {"file-path": path, "x-file-size": str(len(content))}
    begun = ask(admin, "multipart_init", {"headers": headers})
    assert begun["direct"], begun
    size, id = begun["chunk_size"], begun["upload_id"]
    for index, start in enumerate(range(0, len(content), size)):
        chunk = content[start : start + size]
        fields = {"upload_id": id, "chunks": [{"index": index, "crc32": format_crc32(chunk)}]}
        (signed_chunk,) = ask(admin, "multipart_sign", {"body": json.dumps(fields)})["chunks"]
        sent = httpx.request(
            signed_chunk["method"], signed_chunk["url"], headers=signed_chunk["headers"], content=chunk, timeout=60
        )
        assert sent.status_code == 200, sent.text
    ask(admin, "multipart_complete", {"headers": {"x-upload-id": id}})
    assert admin.gets("files/get", path=path)["size"] == len(content)


def ask(admin: Person, sample: str, event: dict[str, Any]) -> Any:
    answer = json.loads(admin.raw(f"uploads/{sample}", event)["body"])
    assert answer["code"] == 200, (sample, answer)
    return answer["data"]


def copy(admin: Person) -> None:
    """From elsewhere, by the machine."""
    (id,) = admin.transfer("copy", "/outside", "/files/journey", "tree")
    admin.cloud.run_executions()
    assert admin.read_outcome("copy", id) == SUCCEEDED


def copy_and_delete_midway(admin: Person) -> None:
    """A task is removed while a worker copies its large file: it is cleaned up, and deleted by its machine."""
    admin.gets("files/mkdir", path="/files/journey/again")
    (id,) = admin.transfer("copy", "/outside", "/files/journey/again", "tree")
    worker = admin.cloud.get_function("TransferMove")
    once(worker, "large", lambda: admin.tasks("copy", "delete", tid=id), nth=2)
    admin.cloud.run_executions()
    assert worker.on_call is None, "it was deleted in the middle"
    check_no_parts(admin)
    table = f"{lambdas.STACK}-tasks"
    assert "Item" not in admin.cloud.client("dynamodb").get_item(TableName=table, Key={"id": {"S": id}})
    store, bucket = admin.cloud.client("s3"), admin.cloud.refs["Files"]
    stored = store.list_objects_v2(Bucket=bucket, Prefix="journey/again/").get("Contents", ())
    assert not [item["Key"] for item in stored if item["Key"].endswith("large")]


def search(admin: Person) -> None:
    """The index is built by its machine, and asked."""
    rows = [{"key": "search_index", "value": "database"}, {"key": "auto_update_index", "value": "true"}]
    admin.raw("settings/save", {"body": json.dumps(rows)})
    admin.cloud.run_executions()
    hits = admin.gets("search/search", parent="/", keywords="parts.bin", scope=0, page=1, per_page=10, password="")
    assert [hit["name"] for hit in hits["content"]] == ["parts.bin"]


def download(admin: Person, path: str) -> bytes:
    answer = admin.downloads(path, admin.gets("files/get", path=path)["sign"])
    assert answer["statusCode"] == 302, answer
    return httpx.get(answer["headers"]["location"], timeout=60).content
