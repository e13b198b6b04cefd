"""Index scenarios of the functions: built, updated, damaged, lost, dropped, checked regularly."""

from __future__ import annotations

import json

import pytest

from mangrove.tasks.index import indexing, lists
from tests.contract.request_key_scenario import repeat
from tests.contract.scenarios import Person
from tests.contract.worker_faults import empty_staging
from tests.support import lambdas

STORAGE = 1  # the one that a deployment begins with
MANIFEST = f"{STORAGE}/manifest.json"
TASK = indexing.make_task_id(STORAGE)


def run_all(admin: Person) -> None:
    switch(admin, "none")
    switch(admin, "database")
    assert find(admin, "letters") > 0
    lose_index(admin)
    lose_lists(admin)
    build_a_large_one(admin)
    look_regularly(admin)
    change_storages(admin)
    assert find(admin, "letters") > 0
    search_share(admin)


def search_share(admin: Person) -> None:
    """Search a share link, with a wrong password first."""
    admin.gets("files/mkdir", path="/files/shared")
    id = admin.gets("shares/create", files=["/files/shared"], pwd="secret")["id"]
    for password, code in (("wrong", 403), ("secret", 200)):
        body = {"parent": f"/@s/{id}", "keywords": "letters", "scope": 0, "page": 1, "per_page": 10}
        assert Person(admin.cloud).asks("search/search", **body, password=password)["code"] == code
    admin.gets("shares/delete", f"id={id}")


def switch(admin: Person, engine: str) -> None:
    rows = [{"key": "search_index", "value": engine}, {"key": "auto_update_index", "value": "true"}]
    admin.raw("settings/save", {"body": json.dumps(rows)})
    admin.cloud.run_executions()


def find(admin: Person, words: str) -> int:
    """Return the number of names of the first storage that have these words."""
    body = {"parent": "/files", "keywords": words, "scope": 0, "page": 1, "per_page": 10, "password": ""}
    total: int = admin.gets("search/search", **body)["total"]
    return total


def lose_index(admin: Person) -> None:
    """Damage or remove the manifest: a search, or the next run, builds the index again."""
    cloud, store, bucket = admin.cloud, admin.cloud.client("s3"), admin.cloud.refs["Index"]
    store.put_object(Bucket=bucket, Key=MANIFEST, Body=b"{}")
    assert find(admin, "letters") == 0
    cloud.run_executions()
    assert find(admin, "letters") > 0
    store.put_object(Bucket=bucket, Key=MANIFEST, Body=b"{}")
    repeat(admin.raw, "search/build")
    assert admin.raw("search/build", {"headers": {"idempotency-key": "during a run"}})["statusCode"] == 200
    cloud.run_executions()
    admin.gets("search/update", paths=["/files"], max_depth=3)
    cloud.run_executions()
    admin.gets("search/update", paths=["/files"], max_depth=3)
    cloud.get_function("IndexPlan")({"tid": TASK})
    store.delete_object(Bucket=bucket, Key=MANIFEST)
    with pytest.raises(lambdas.FunctionError, match="the index to be updated is gone"):
        cloud.get_function("IndexWalk")({"tid": TASK})
    cloud.run_executions()
    assert "the index to be updated is gone" in admin.gets("search/progress")["error"]
    admin.gets("search/build")
    cloud.run_executions()
    assert admin.gets("search/progress")["error"] == ""


def lose_lists(admin: Person) -> None:
    """Remove the plan before its folders are read."""
    admin.gets("search/build")
    admin.cloud.get_function("IndexPlan")({"tid": TASK})
    empty_staging(admin)
    admin.cloud.run_executions()
    assert admin.gets("search/progress")["error"]
    admin.gets("search/build")
    admin.cloud.run_executions()
    assert admin.gets("search/progress")["error"] == ""


def build_a_large_one(admin: Person) -> None:
    """So many folders wait that several workers read them."""
    cloud, store, bucket = admin.cloud, admin.cloud.client("s3"), admin.cloud.refs["Files"]
    keys = [f"many/{number}/x" for number in range(lists.MIN_SHARED_FOLDERS)]
    for key in keys:
        store.put_object(Bucket=bucket, Key=key, Body=b"")
    admin.gets("search/clear")
    cloud.run_executions()
    admin.gets("search/build")
    cloud.run_executions()
    counts = find(admin, "many"), find(admin, "x")
    assert counts[0] == 1 and counts[1] >= len(keys), (counts, admin.gets("search/progress"))
    for key in keys:
        store.delete_object(Bucket=bucket, Key=key)
    admin.gets("search/build")
    cloud.run_executions()


def look_regularly(admin: Person) -> None:
    """A storage without a task gets one; old changes are merged."""
    cloud, records = admin.cloud, admin.cloud.client("dynamodb")
    records.delete_item(TableName=f"{lambdas.STACK}-tasks", Key={"id": {"S": TASK}})
    cloud.get_function("ReindexFunction")({})
    cloud.run_executions()
    content = {"path": "/", "deep": False, "target": "", "entries": [], "removed": []}
    change = {"log": {"S": "changes"}, "number": {"S": f"{1:017d}-x"}, "storage": {"N": str(STORAGE)}}
    change |= {"kind": {"S": "read"}, "content": {"S": json.dumps(content)}}
    records.put_item(TableName=f"{lambdas.STACK}-index_changes", Item=change)
    cloud.get_function("ReindexFunction")({})
    assert not admin.gets("search/progress")["is_done"]
    cloud.run_executions()


def change_storages(admin: Person) -> None:
    """A storage is unmounted before its run has begun."""
    addition = json.dumps({"num_file": 1, "num_folder": 1})
    id = admin.gets("storages/create", mount_path="/indexed", driver="Virtual", addition=addition)["id"]
    admin.gets("storages/disable", f"id={id}")
    admin.gets("storages/delete", f"id={id}")
    admin.cloud.run_executions()


def stall(admin: Person) -> None:
    """Open a run of the first storage."""
    admin.gets("search/update", paths=["/files"], max_depth=1)
