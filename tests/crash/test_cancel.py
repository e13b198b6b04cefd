"""Cancel, retry and delete of work that is under way, and work that meets a change: what is left is whole."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests import servers
from tests.crash.backends import Bucket, Disk, fact
from tests.crash.harness import World

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cancel")]  # one world

LARGE = 200 << 20  # bytes; enough to be met under way
CANCEL_SECONDS = 20.0


@pytest.fixture
def job(world: World) -> Iterator[Callable[..., str]]:
    """Starts work from one side to another, `files` below a folder of its own; the task's id, met under way."""

    def begin(verb: str, origin: str, target_name: str, files: dict[str, bytes], **more: Any) -> str:
        source, target = world.backends[origin], world.backends[target_name]
        for path, body in files.items():
            source.put(f"{name}/{path}", body)
        body = {"src_dir": source.mount, "dst_dir": target.mount, "names": [name], **more}
        answer = world.client.post(f"/openlist/api/fs/{verb}", **body)
        assert answer["code"] == 200, answer
        return str(answer["data"]["tasks"][0]["id"])

    name = begin.name = uuid4().hex  # type: ignore[attr-defined]
    yield begin
    for side in world.backends.values():
        side.clear()


def info(world: World, kind: str, id: str) -> dict[str, Any]:
    row: dict[str, Any] = world.client.ok(f"/openlist/api/task/{kind}/info", params={"tid": id})
    return row


def until(world: World, kind: str, id: str, states: set[int], seconds: float = 30.0) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while (row := info(world, kind, id))["state"] not in states:
        assert time.monotonic() < end, row
        time.sleep(0.02)
    return row


def under_way(world: World, kind: str, id: str) -> None:
    """Until some of its bytes are stored."""
    end = time.monotonic() + 20
    while (row := info(world, kind, id))["state"] != 1 or not row["progress"]:
        assert row["state"] in (0, 1), row
        assert time.monotonic() < end, row
        time.sleep(0.005)


def orphans(world: World) -> list[tuple[str, int]]:
    return [orphan for side in world.backends.values() for orphan in side.orphans()]


def large(seed: bytes) -> bytes:
    return seed * (LARGE // len(seed))


@pytest.mark.parametrize("target_name", ["second", "bucket"])
def test_a_cancelled_task_ends_soon_leaves_nothing_half_and_can_be_retried(
    world: World, job: Callable[..., str], target_name: str
) -> None:
    body = large(os.urandom(1 << 20))
    slow = world.backends["bucket"] if target_name == "second" else world.backends["files"]
    origin = "bucket" if slow.mount == "/bucket" else "files"
    id = job("copy", origin, target_name, {"large.bin": body, "small.txt": b"small"})
    under_way(world, "copy", id)
    started = time.monotonic()
    world.client.ok("/openlist/api/task/copy/cancel", params={"tid": id})
    assert info(world, "copy", id)["state"] in (3, 4)
    row = until(world, "copy", id, {2, 4, 7})
    assert (row["state"], row["error"]) == (4, "context canceled")
    assert time.monotonic() - started < CANCEL_SECONDS and row["end_time"] is not None
    there = world.backends[target_name].tree(job.name)
    assert there.get("large.bin") is None and there.get("small.txt") in (None, fact(b"small"))
    assert orphans(world) == []
    world.client.ok("/openlist/api/task/copy/retry", params={"tid": id})
    row = until(world, "copy", id, {2, 4, 7})
    assert (row["state"], row["error"]) == (2, "")
    expected = {"": None, "large.bin": fact(body), "small.txt": fact(b"small")}
    assert world.backends[target_name].tree(job.name) == expected
    assert orphans(world) == []


@pytest.mark.parametrize("target_name", ["second", "bucket"])
def test_a_deleted_task_stops_and_leaves_no_part(world: World, job: Callable[..., str], target_name: str) -> None:
    id = job(
        "move", "bucket" if target_name == "second" else "files", target_name, {"large.bin": large(os.urandom(1 << 20))}
    )
    under_way(world, "move", id)
    world.client.ok("/openlist/api/task/move/delete", params={"tid": id})
    assert world.client.post("/openlist/api/task/move/info", params={"tid": id})["code"] == 404
    assert id not in [row["id"] for row in world.tasks("move", "undone") + world.tasks("move", "done")]
    end = time.monotonic() + CANCEL_SECONDS
    while orphans(world) or (world.data / "staging" / id).exists():
        assert time.monotonic() < end, orphans(world)
        time.sleep(0.05)
    time.sleep(0.5)
    assert orphans(world) == []
    assert world.backends[target_name].tree(job.name).get("large.bin") is None
    source = world.backends["bucket" if target_name == "second" else "files"]
    assert "large.bin" in source.tree(job.name)


def test_file_changed_during_copy_fails_and_rest_continues(world: World, job: Callable[..., str]) -> None:
    files = {"a.bin": large(os.urandom(1 << 20)), "b.bin": large(os.urandom(1 << 20)), "c.txt": b"c", "z/y.txt": b"y"}
    id = job("move", "files", "bucket", files)
    under_way(world, "move", id)
    side = world.backends["files"]
    assert isinstance(side, Disk)
    for name in ("a.bin", "b.bin"):  # one is being read, the other is not yet
        with (side.root / job.name / name).open("r+b") as file:
            file.write(b"changed")
    row = until(world, "move", id, {2, 4, 7})
    assert row["state"] == 7
    assert row["error"].startswith("2 of 6 items failed: ") and "a.bin: the source changed" in row["error"]
    assert "b.bin: the source changed" in row["error"]
    there = world.backends["bucket"].tree(job.name)
    assert there == {"": None, "c.txt": fact(b"c"), "z": None, "z/y.txt": fact(b"y")}
    here = side.tree(job.name)
    assert here.pop("a.bin") is not None and here.pop("b.bin") is not None
    assert orphans(world) == []


def test_parts_of_failed_file_are_dropped_before_next_large_file(world: World, job: Callable[..., str]) -> None:
    id = job("copy", "files", "second", {"a.bin": large(os.urandom(1 << 20)), "b.bin": os.urandom(40 << 20)})
    side = world.backends["files"]
    assert isinstance(side, Disk)
    stop = threading.Event()

    def touch() -> None:
        while not stop.is_set():
            os.utime(side.root / job.name / "a.bin")
            time.sleep(0.001)

    toucher = threading.Thread(target=touch)
    toucher.start()
    row = until(world, "copy", id, {2, 4, 7})
    stop.set()
    toucher.join()
    assert row["state"] == 7 and "a.bin: the source changed" in row["error"]
    assert set(world.backends["second"].tree(job.name)) == {"", "b.bin"}
    assert orphans(world) == []


def test_the_task_of_a_user_who_is_disabled_midway_stops_with_that_reason(
    world: World, job: Callable[..., str]
) -> None:
    name = f"user-{uuid4().hex}"
    user = {"username": name, "password": "pass", "base_path": "/", "role": 0, "permission": 0xFFFF, "disabled": False}
    world.client.ok("/api/admin/user/create", **user)
    rows = world.client.get("/api/admin/user/list", page=1, per_page=1000)["data"]["content"]
    number = next(row["id"] for row in rows if row["username"] == name)
    owner, world.client = world.client, world.service.client(name, "pass")
    try:
        files = {f"{count}.txt": b"content" for count in range(5000)}  # more than one step transfers
        id = job("copy", "files", "bucket", files)
    finally:
        world.client = owner
    under_way(world, "copy", id)
    world.client.ok("/api/admin/user/update", id=number, **(user | {"disabled": True, "password": ""}))
    row = until(world, "copy", id, {2, 4, 7})
    assert (row["state"], row["error"]) == (7, "the account that requested this does not exist any more")
    assert row["creator"] == name
    target = world.backends["bucket"]
    assert isinstance(target, Bucket) and 0 < len(target.names(job.name)) < 5000
    world.client.ok("/api/admin/user/delete", params={"id": number})


def test_replaced_file_of_equal_size_is_new_after_worker_kill(world: World, job: Callable[..., str]) -> None:
    old, new = large(b"old." * (1 << 18)), large(b"new!" * (1 << 18))
    target = world.backends["bucket"]
    assert isinstance(target, Bucket)
    target.put(f"{job.name}/large.bin", old)
    id = job("move", "files", "bucket", {"large.bin": new}, overwrite=True)
    under_way(world, "move", id)
    while info(world, "move", id)["progress"] < 95:
        time.sleep(0.001)
    world.kill()
    world.restart()
    assert until(world, "move", id, {2, 4, 7})["state"] == 2
    assert target.tree(job.name) == {"": None, "large.bin": fact(new)}
    assert world.backends["files"].tree(job.name) == {}
    assert orphans(world) == []


def test_what_a_task_is_outlives_the_process(world: World, job: Callable[..., str]) -> None:
    id = job("copy", "files", "bucket", {"large.bin": large(os.urandom(1 << 20))})
    under_way(world, "copy", id)
    before = info(world, "copy", id)
    world.kill()
    world.restart()
    after = next(row for row in world.tasks("copy", "undone") if row["id"] == id)
    same = ("id", "name", "creator", "creator_role", "start_time", "total_bytes")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert before["progress"] <= after["progress"] < 100 and after["state"] == 1
    assert until(world, "copy", id, {2, 4, 7})["state"] == 2
    assert [row["id"] for row in world.tasks("copy", "done")].count(id) == 1
    world.kill()
    world.restart()
    assert info(world, "copy", id)["state"] == 2


def test_a_task_asked_for_while_storages_still_start_is_taken_up(tmp_path: Path, world: World) -> None:
    """A storage that does not answer holds up the start of the runner, not the request."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = servers.s3_options(f"http://127.0.0.1:{silent.getsockname()[1]}", "none")
        mount = f"/silent-{uuid4().hex}"
        body = {"mount_path": mount, "driver": "S3", "addition": json.dumps(options)}
        number = world.client.ok("/api/admin/storage/create", **body)["id"]
        world.kill()
        world.restart()
        name = uuid4().hex
        world.backends["files"].put(f"{name}/file.txt", b"early")
        answer = world.client.post("/openlist/api/fs/copy", src_dir="/files", dst_dir="/second", names=[name])
        assert answer["code"] == 200, answer
        row = until(world, "copy", answer["data"]["tasks"][0]["id"], {2, 4, 7})
        assert (row["state"], row["error"]) == (2, "")
        assert world.backends["second"].tree(name) == {"": None, "file.txt": fact(b"early")}
        world.client.ok("/api/admin/storage/delete", params={"id": number})
        for side in world.backends.values():
            side.clear()
