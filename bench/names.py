"""Requests that name 10,000 files of a bucket, which answers as late as AWS does: the time until each is answered."""

from __future__ import annotations

import json
import time
from uuid import uuid4

import httpx

from bench.environment import Environment
from bench.table import work
from tests.servers import make_client, s3_options
from tests.servers.object_store import object_store

NAMES = [f"{number:07}" for number in range(10_000)]
MILLISECONDS = {"HEAD": 12.0, "LIST": 25.0, "other": 20.0}


def _mount(env: Environment, endpoint: str, count: int) -> str:
    """The mount path of a new bucket with `count` files in the folder d, and the folder to."""
    bucket, s3 = f"b{uuid4().hex}", make_client("s3", endpoint)
    s3.create_bucket(Bucket=bucket)
    httpx.get(f"{endpoint}/{bucket}", params={"fill": "d/", "count": count}).raise_for_status()
    s3.put_object(Bucket=bucket, Key="to/.mangrove", Body=b"")
    addition = json.dumps(s3_options(endpoint, bucket))
    env.client.ok("/api/admin/storage/create", mount_path=f"/{bucket}", driver="S3", addition=addition)
    return f"/{bucket}"


def _time(env: Environment, verb: str, *, within: bool = False) -> float:
    """Seconds until the request is answered, that a task goes on with; which is then cancelled."""
    with object_store(**MILLISECONDS) as endpoint:
        source = _mount(env, endpoint, len(NAMES))
        target = source if within else _mount(env, endpoint, 0)
        ends = {"src_dir": f"{source}/d", "dst_dir": f"{target}/to"}
        body = {"dir": f"{source}/d"} if verb == "remove" else ends
        client = env.client
        client.ok("/api/fs/list", path=f"{source}/to")  # the service knows the bucket
        began = time.perf_counter()
        tasks = client.ok(f"/openlist/api/fs/{verb}", **body, names=NAMES)["tasks"]
        seconds = time.perf_counter() - began
        kind = "copy" if verb == "copy" else "move"
        assert len(tasks) == 1, tasks
        client.ok(f"/api/task/{kind}/cancel?tid={tasks[0]['id']}")
        while client.get(f"/api/task/{kind}/undone")["data"]:
            time.sleep(0.1)
    return seconds


@work("copy 10,000 names to another bucket: answered", "s", most=5)
def time_copy(env: Environment) -> float:
    return _time(env, "copy")


@work("move 10,000 names to another bucket: answered", "s", most=5)
def time_move(env: Environment) -> float:
    return _time(env, "move")


@work("move 10,000 names within a bucket: answered", "s", most=5)
def time_move_within(env: Environment) -> float:
    return _time(env, "move", within=True)


@work("remove 10,000 names of a bucket: answered", "s", most=5)
def time_remove(env: Environment) -> float:
    return _time(env, "remove")
