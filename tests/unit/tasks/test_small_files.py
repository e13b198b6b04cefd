"""Small files of a disk that go to a bucket: what that asks of the server and the records, and what is in the way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from mangrove.core.problems import InUse
from mangrove.identity.rights import Right
from mangrove.records.store import base
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer import small_files
from mangrove.tree import lock_leases
from mangrove.tree.operations import name_locks
from tests import servers
from tests.support.task_env import Bucket, Disk, TaskEnv
from tests.unit.drivers.s3.proxy import Exchange, Proxy, proxied

SUCCEEDED = (State.SUCCEEDED, "")
NAMES = [f"{number:04}" for number in range(40)]
FILES = {f"d/{name}": name.encode() for name in NAMES}


@pytest.fixture(params=["decides", "replaces"])
def proxy(request: pytest.FixtureRequest, task_env: TaskEnv) -> Iterator[Proxy]:
    """A server that refuses to replace an object where that is asked for, and one that ignores it."""
    with proxied(task_env.endpoint()) as server:
        if request.param == "replaces":
            server.strip("if-none-match")  # noqa: B005 - a server, not a text
        yield server


@pytest.fixture
def bucket(task_env: TaskEnv, proxy: Proxy) -> Bucket:
    direct = task_env.bucket()
    options = servers.s3_options(proxy.endpoint, direct.name)
    return Bucket(task_env.mount("S3", options), direct.client, direct.name)


@pytest.fixture
def disk(task_env: TaskEnv) -> Disk:
    disk = task_env.disk()
    for key, content in FILES.items():
        disk.put(key, content)
    return disk


def count(proxy: Proxy, task_env: TaskEnv, task: Task) -> Counter[str]:
    """Count the requests of the task to the server, without the probes of its features."""
    del proxy.seen[:]
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    return Counter(exchange.operation for exchange in proxy.seen if ".mangrove" not in exchange.target)


@pytest.mark.parametrize(("verb", "overwrite"), [("copy", False), ("copy", True), ("move", False)])
def test_file_costs_one_server_call_and_less_than_one_record_call(
    task_env: TaskEnv, proxy: Proxy, disk: Disk, bucket: Bucket, verb: str, overwrite: bool
) -> None:
    (task,) = task_env.transfer(verb, disk.mount, bucket.mount, "d", overwrite=overwrite)
    before = base.count_calls()
    made = count(proxy, task_env, task)
    assert made["put_object"] == len(NAMES)
    assert made.total() - len(NAMES) <= 12, made
    assert base.count_calls() - before < len(NAMES)
    assert bucket.files() == FILES
    assert disk.files() == ({} if verb == "move" else FILES)


def test_what_is_there_or_changed_is_left_by_name_and_the_same_bytes_count(
    task_env: TaskEnv, proxy: Proxy, disk: Disk, bucket: Bucket
) -> None:
    task = task_env.copy(disk.mount, bucket.mount, "d")

    def begin(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 0):
            bucket.put("d/0001", b"theirs")
            bucket.put("d/0002", b"0002")  # as a worker that died may have left it
            bucket.put("d/0003/below", b"theirs")
            disk.put("d/0004", b"newer")
            (disk.root / "d/0005").unlink()

    task_env.run(task, begin)
    state, error = task_env.view(task)
    assert state == State.FAILED
    assert error.startswith("4 of 41 items failed: ")
    assert "0004: the source changed since the task began" in error
    existing = {"d/0001": b"theirs", "d/0003/below": b"theirs"}
    gone = {"d/0003", "d/0004", "d/0005"}
    assert bucket.files() == {key: content for key, content in FILES.items() if key not in gone} | existing


def test_a_file_that_comes_there_meanwhile_stays(
    task_env: TaskEnv, proxy: Proxy, disk: Disk, bucket: Bucket, request: pytest.FixtureRequest
) -> None:
    """If the server cannot refuse, a file of another user is noticed while the names are locked."""
    task = task_env.copy(disk.mount, bucket.mount, "d")
    waiting = ["d/0007"]
    decides = "decides" in request.node.callspec.id

    def meddle(exchange: Exchange) -> None:
        is_last_look = exchange.query.get("prefix") == ["d/00"] and not decides
        if waiting and (is_last_look or (decides and exchange.key == waiting[0])):
            bucket.put(waiting.pop(), b"theirs")

    proxy.before.append(meddle)
    task_env.run(task)
    state, error = task_env.view(task)
    assert (state, not waiting) == (State.FAILED, True)
    assert error.startswith("1 of 41 items failed: ") and "0007" in error
    assert bucket.files() == FILES | {"d/0007": b"theirs"}


@pytest.mark.parametrize("proxy", ["replaces"], indirect=True)
def test_a_name_that_somebody_holds_keeps_back_one_file_of_its_group(
    task_env: TaskEnv, proxy: Proxy, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_leases, "WAIT_SECONDS", 8.0)
    disk = task_env.disk()
    for name in ("1", "2", "3"):
        disk.put(f"d/{name}", name.encode())
    task = task_env.copy(disk.mount, bucket.mount, "d")
    held = task_env.access(f"{bucket.mount}/d/2", Right.READ)

    async def work() -> None:
        async with name_locks.lock_name(await held.locate()):
            await asyncio.to_thread(task_env.run, task)

    task_env.do(work())
    assert task_env.view(task) == (State.FAILED, f"1 of 4 items failed: 2: {InUse.text}")
    assert bucket.files() == {"d/1": b"1", "d/3": b"3"}


def test_groups_hold_as_many_files_and_bytes_as_they_may(
    task_env: TaskEnv, proxy: Proxy, disk: Disk, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "MAX_GROUP_FILES", 16)
    monkeypatch.setattr(small_files, "MAX_GROUP_BYTES", 20)  # five files
    made = count(proxy, task_env, task_env.copy(disk.mount, bucket.mount, "d"))
    assert made["put_object"] == len(NAMES)
    assert bucket.files() == FILES


@pytest.mark.parametrize("proxy", ["decides"], indirect=True)
@pytest.mark.parametrize("most", [1, 3])
def test_as_many_files_are_under_way_at_once_as_the_setting_says(
    task_env: TaskEnv, proxy: Proxy, disk: Disk, bucket: Bucket, most: int
) -> None:
    task_env.set(small_file_threads_num=str(most))
    running, seen, lock = [0], set[int](), threading.Lock()

    def begin(exchange: Exchange) -> None:
        if exchange.key.startswith("d/0"):
            with lock:
                running[0] += 1
                seen.add(running[0])
            time.sleep(0.02)

    def end(exchange: Exchange) -> None:
        if exchange.key.startswith("d/0"):
            with lock:
                running[0] -= 1

    proxy.before.append(begin)
    proxy.after.append(end)
    made = count(proxy, task_env, task_env.copy(disk.mount, bucket.mount, "d"))
    assert made["put_object"] == len(NAMES)
    assert max(seen) == most
