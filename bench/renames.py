"""The rename of a large folder of a bucket, which a task does object by object: the bucket answers as late as AWS."""

from __future__ import annotations

import json
import time

import httpx

from bench.environment import Environment
from bench.memory import Growth
from bench.table import work
from tests.servers import make_bucket, s3_options
from tests.servers.object_store import object_store

MILLISECONDS = {"HEAD": 12.0, "LIST": 25.0, "other": 20.0}
SHARE = 10  # rows of the environment for each object: 100,000 of its million
LOOK_SECONDS = 0.5  # between two looks at the task


def _rename(env: Environment) -> dict[str, float]:
    count = env.rows // SHARE
    with object_store(**MILLISECONDS) as endpoint:
        bucket = make_bucket(endpoint)
        httpx.get(f"{endpoint}/{bucket}", params={"fill": "d/", "count": count}, timeout=120).raise_for_status()
        addition = json.dumps(s3_options(endpoint, bucket))
        env.client.ok("/api/admin/storage/create", mount_path=f"/{bucket}", driver="S3", addition=addition)
        with Growth(env.service.process.pid) as growth:
            began = time.perf_counter()
            env.client.ok("/api/fs/rename", path=f"/{bucket}/d", name="renamed")
            answered = time.perf_counter() - began
            while env.client.get("/api/task/move/undone")["data"]:
                time.sleep(LOOK_SECONDS)
            done = time.perf_counter() - began
        (row,) = env.client.get("/api/task/move/done")["data"]
        assert (row["state"], row["error"]) == ("succeeded", ""), row
        found = env.client.ok("/api/fs/list", path=f"/{bucket}/renamed", page=1, per_page=0)["content"]
        assert len(found) == count
        assert [one["name"] for one in env.client.ok("/api/fs/list", path=f"/{bucket}")["content"]] == ["renamed"]
    return {"answered": answered, "done": done, "growth": growth.bytes, "count": count}


def _measure(env: Environment, name: str) -> float:
    if "rename done" not in env.kept:
        env.kept |= {f"rename {key}": value for key, value in _rename(env).items()}
    return env.kept[f"rename {name}"]


@work("100,000 objects of a bucket renamed: answered", "s", most=5)
def measure_answer(env: Environment) -> float:
    return _measure(env, "answered")


@work("the same, objects renamed in a second", "/s")
def measure_pace(env: Environment) -> float:
    return _measure(env, "count") / (_measure(env, "done") - _measure(env, "answered"))


@work("the same, memory growth meanwhile", "MB", most=64)
def measure_memory(env: Environment) -> float:
    return _measure(env, "growth") / 1e6
