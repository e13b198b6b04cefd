"""A mount that hangs costs its own storage and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import Unreachable
from mangrove.standalone.stopping import END_SECONDS, GRACE_SECONDS
from tests.support.hanging_mount import MISSING, HangingMount, hanging_mount
from tests.support.service import Client, Service, run_service, start_service
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

ANSWER_SECONDS = 10.0  # what the interface promises of a storage that hangs
MAX_ANSWER_SECONDS = 2.0  # far below that, on a loaded machine too
STOP_SECONDS = GRACE_SECONDS + END_SECONDS + 5.0  # the last for a loaded machine


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[HangingMount]:
    with hanging_mount(tmp_path / "hanging") as mount:
        (mount.source / "a.txt").write_text("text")
        yield mount


@contextmanager
def serve(tmp_path: Path, mount: HangingMount) -> Iterator[tuple[Service, Client]]:
    """A service with the mount as the storage /hung, beside /files."""
    with run_service(tmp_path / "data", MANGROVE_MAX_CONNECTIONS_PER_ADDRESS="300") as service:
        admin = service.client()
        create_storage(admin, mount)
        assert admin.names("/hung") == ["a.txt"]
        admin.put("/files/b.txt", b"more")
        yield service, admin


def create_storage(admin: Client, mount: HangingMount) -> None:
    addition = {"root_folder_path": str(mount.path)}
    storage = {"mount_path": "/hung", "driver": "Local", "addition": json.dumps(addition), "cache_expiration": 0}
    storage["disable_index"] = True  # a walk in it when it hangs may be in the kernel for as long as it does
    admin.ok("/api/admin/storage/create", **storage)


def measure(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and its answer."""
    start = time.monotonic()
    answer = call()
    return time.monotonic() - start, answer


def list_hung(client: Client) -> dict[str, Any]:
    return client.post("/api/fs/list", path="/hung", refresh=True)


def wait_until_back(client: Client) -> None:
    end = time.monotonic() + 60
    while list_hung(client)["code"] != 200:
        assert time.monotonic() < end, "the storage answers, and the service does not use it"
        time.sleep(0.1)


def test_hundred_requests_to_hung_mount_do_not_delay_others(tmp_path: Path, mount: HangingMount) -> None:
    with serve(tmp_path, mount) as (service, admin), ThreadPoolExecutor(100) as pool:
        other = service.client()  # with connections of its own
        mount.hang()
        try:
            calls = [pool.submit(measure, lambda: list_hung(admin)) for _ in range(100)]
            others, shown = list[float](), 0
            while not all(call.done() for call in calls):
                for path in ("/files", "/"):
                    seconds, names = measure(lambda path=path: other.names(path))  # type: ignore[misc]
                    assert "hung" in names if path == "/" else names == ["b.txt"]
                    others.append(seconds)
                shown += 1
            answers = [call.result() for call in calls]
            refused, answer = measure(lambda: list_hung(other))
        finally:
            mount.resume()
        assert shown > 10
        assert max(others) < MAX_ANSWER_SECONDS
        assert {answer["code"] for _, answer in answers} == {500}
        assert all(answer["message"].endswith(Unreachable.text) for _, answer in answers)
        assert max(seconds for seconds, _ in answers) < ANSWER_SECONDS
        assert answer["code"] == 500
        assert refused < MAX_ANSWER_SECONDS
        wait_until_back(admin)


@pytest.mark.long
def test_operations_on_hung_mount_fail_until_it_answers(tmp_path: Path, mount: HangingMount) -> None:
    with serve(tmp_path, mount) as (_, admin):
        mount.hang()
        try:
            calls: dict[str, Callable[[], Any]] = {
                "put": lambda: admin.put("/hung/new.txt", b"x" * (3 << 20)),
                "mkdir": lambda: admin.post("/api/fs/mkdir", path="/hung/folder"),
                "remove": lambda: admin.post("/api/fs/remove", dir="/hung", names=["a.txt"]),
                "list": lambda: list_hung(admin),
            }
            with ThreadPoolExecutor(len(calls)) as pool:
                answers = dict(zip(calls, pool.map(measure, calls.values()), strict=True))
            for name, (seconds, answer) in answers.items():
                assert answer["code"] == 500, name
                assert seconds < ANSWER_SECONDS, name
            seconds, page = measure(lambda: admin.get("/api/admin/storage/list"))
            assert page["code"] == 200
            assert seconds < MAX_ANSWER_SECONDS + 1
        finally:
            mount.resume()
        wait_until_back(admin)
        assert admin.put("/hung/after.txt", b"after")["code"] == 200
        assert admin.bytes("/hung/after.txt").content == b"after"
        whole = {name for name in admin.names("/hung") if admin.bytes(f"/hung/{name}").status_code == 200}
        assert whole <= {"a.txt", "after.txt", "folder"}, "what was refused left no half file"


@pytest.mark.long
def test_upload_during_mount_hang_leaves_no_partial_file(tmp_path: Path, mount: HangingMount) -> None:
    with serve(tmp_path, mount) as (service, admin):
        old = admin.put("/hung/old.txt", b"old")
        assert old["code"] == 200

        def body() -> Iterator[bytes]:
            for _ in range(4):
                yield bytes(1 << 20)
            mount.hang()
            for _ in range(8):
                yield bytes(1 << 20)

        try:
            answer = admin.put("/hung/old.txt", body())
            assert answer["code"] == 500
            assert service.client().names("/files") == ["b.txt"]
        finally:
            mount.resume()
        wait_until_back(admin)
        assert admin.bytes("/hung/old.txt").content == b"old"
        wait_until(lambda: {child.name for child in mount.source.iterdir()} == {"a.txt", "old.txt"}, 60)


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "under_way", ["list", *(pytest.param(operation, marks=LONG) for operation in ("put", "get", "task"))]
)
def test_the_service_ends_within_its_grace_whatever_hangs(tmp_path: Path, mount: HangingMount, under_way: str) -> None:
    with serve(tmp_path, mount) as (service, admin), ThreadPoolExecutor(4) as pool:
        mount.hang()
        try:
            match under_way:
                case "list":
                    calls = [pool.submit(list_hung, admin) for _ in range(4)]
                case "put":
                    calls = [pool.submit(admin.put, "/hung/new.txt", b"x" * (3 << 20))]
                case "get":
                    calls = [pool.submit(admin.bytes, "/hung/a.txt")]
                case _:
                    body = {"src_dir": "/files", "dst_dir": "/hung", "names": ["b.txt"]}
                    calls = [pool.submit(admin.http.post, "/api/fs/copy", json=body)]
            wait_until(lambda: any(map(mount.is_waited_for, service.list_servers())), 20)
            seconds, status = measure(lambda: service.stop())
            assert status == 0
            assert seconds < STOP_SECONDS
        finally:
            mount.resume()
            for call in calls:
                call.exception()  # the connection may be closed already


def test_a_hung_mount_delays_no_start(tmp_path: Path, mount: HangingMount) -> None:
    with serve(tmp_path, mount) as (service, _):
        service.stop()
    mount.hang()
    try:
        seconds, service = measure(lambda: start_service(tmp_path / "data"))
        try:
            admin = service.client()
            assert admin.names("/files") == ["b.txt"]
            assert seconds < ANSWER_SECONDS
            hung, answer = measure(lambda: list_hung(admin))
            assert answer["code"] == 500
            assert hung < ANSWER_SECONDS
            mount.resume()
            wait_until_back(admin)
        finally:
            service.kill()
    finally:
        mount.resume()
