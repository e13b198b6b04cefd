"""A server that is dead or hangs costs its own storage and nothing else, and is used again when it is back."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.task_client import wait_until
from tests.protocol import places
from tests.protocol.places import Kind, Options, Served
from tests.servers import dav
from tests.servers.relay import Relay, relay
from tests.support.proc import list_descendants
from tests.support.service import Client, Service

pytestmark = pytest.mark.long


CALLERS = 50
ANSWER_SECONDS = 35.0  # to say that a server does not answer: the wait for a connection and for the server
MAX_ANSWER_SECONDS = 2.0  # far below that, on a loaded machine too
RECOVERY_SECONDS = 120.0


@contextmanager
def serve_s3(folder: Path, _: Client) -> Iterator[Served]:
    with servers.rclone_s3(folder / "buckets") as endpoint:
        yield Served(servers.s3_options(endpoint, servers.make_bucket(endpoint)))


S3 = Kind("S3", serve_s3, "secret_access_key", says_at_once=False)  # a process of its own, which can be stopped
REMOTE = {name: kind for name, kind in places.KINDS.items() if kind.is_remote} | {"S3": S3}


@pytest.fixture(params=places.make_params(REMOTE))
def kind(request: pytest.FixtureRequest) -> Kind:
    kind = REMOTE[request.param]
    if kind.missing:
        pytest.skip(kind.missing)
    return kind


@contextmanager
def stopped(processes: list[int]) -> Iterator[None]:
    """They stand still for the time of the context."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def measure(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and its answer."""
    start = time.monotonic()
    answer = call()
    return time.monotonic() - start, answer


def check_others_while(calls: list[Future[tuple[float, Any]]], other: Client) -> None:
    """Check that local storages answer immediately during these calls."""
    slowest, shown = 0.0, 0
    while not all(call.done() for call in calls):
        for path in ("/files", "/"):
            seconds, _ = measure(lambda path=path: other.names(path))  # type: ignore[misc]
            slowest, shown = max(slowest, seconds), shown + 1
    assert shown > 0
    assert slowest < MAX_ANSWER_SECONDS


def check_dead(service: Service, mount: str, secret: str) -> None:
    """Check that every request for the storage fails in time, and that other requests are not delayed."""
    client, other = service.client(), service.client()
    other.names("/files")
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [
            pool.submit(measure, lambda n=number: client.post("/api/fs/list", path=f"{mount}/{n}", refresh=True))
            for number in range(CALLERS)
        ]
        check_others_while(calls, other)
    answers = [call.result() for call in calls]
    for seconds, answer in answers:
        assert answer["code"] == 500, answer
        assert answer["message"].startswith(("failed get objs: ", "storage status: ")), answer
        assert "not found" not in answer["message"], answer
        assert secret not in answer["message"], answer
        assert seconds < ANSWER_SECONDS, answer


def wait_until_back(client: Client, mount: str) -> None:
    wait_until(lambda: client.post("/api/fs/list", path=mount, refresh=True)["code"] == 200, RECOVERY_SECONDS)


def replace_port(options: Options, make: Callable[[int], int]) -> Options:
    """The options with another port in place of the server's, which is the number after the last colon."""
    name = "endpoint" if "endpoint" in options else "address"
    host, _, port = options[name].rpartition(":")
    return options | {name: f"{host}:{make(int(port))}"}


@contextmanager
def mount_unanswered(admin: Client, kind: Kind, options: Options) -> Iterator[str]:
    """A storage whose server may not answer while it is created."""
    path = f"/{uuid4().hex}"
    record = {"mount_path": path, "driver": kind.driver, "addition": json.dumps(options)} | places.PROXIED
    seconds, answer = measure(lambda: admin.post("/api/admin/storage/create", **record))
    try:
        assert seconds < ANSWER_SECONDS
        assert answer["code"] == (500 if kind.says_at_once else 200), answer
        assert options[kind.secret] not in answer["message"], answer
        yield path
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": answer["data"]["id"]})


def test_a_server_that_never_answers_slows_nobody_and_is_used_when_it_does(
    kind: Kind, service: Service, admin: Client, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        options = stack.enter_context(kind.serve(tmp_path, admin)).options
        made: list[Relay] = []

        def put_before(port: int) -> int:
            made.append(stack.enter_context(relay(port, is_silent=True)))
            return made[0].port

        mount = stack.enter_context(mount_unanswered(admin, kind, replace_port(options, put_before)))
        check_dead(service, mount, options[kind.secret])
        made[0].restart()
        wait_until_back(admin, mount)
        fixtures.fill(admin, mount, "after")
        assert admin.bytes(f"{mount}/after").content == b"after"


@pytest.mark.long
def test_hung_server_delays_no_other_and_is_used_again(
    kind: Kind, service: Service, admin: Client, tmp_path: Path
) -> None:
    before = set(list_descendants(os.getpid()))
    with ExitStack() as stack:
        options = stack.enter_context(kind.serve(tmp_path, admin)).options
        mount = stack.enter_context(places.mount(admin, kind, options, cache_expiration=0))
        fixtures.fill(admin, mount, "before")
        running = [pid for pid in list_descendants(os.getpid()) if pid not in before]
        with stopped(running):
            check_dead(service, mount, options[kind.secret])
        wait_until_back(admin, mount)
        assert admin.bytes(f"{mount}/before").content == b"before"
        fixtures.fill(admin, mount, "after")
        assert admin.names(mount) == ["after", "before"]


def test_status_of_a_storage_follows_its_server(admin: Client) -> None:
    """C6: the status was that of the creation, though the server had been dead for long."""

    def get_status(path: str) -> str:
        rows = admin.get("/api/admin/storage/list")["data"]["content"]
        return str(next(row["status"] for row in rows if row["mount_path"] == path))

    with dav.wsgidav() as server, relay(int(server.address.rpartition(":")[2])) as way:
        options = server.make_options(server.make_folder()) | {"address": f"http://127.0.0.1:{way.port}"}
        with fixtures.mount(admin, "WebDav", addition=options) as path:
            admin.ok("/api/fs/list", path=path, refresh=True)
            assert get_status(path) == "work"
            way.stop()
            assert admin.post("/api/fs/list", path=path, refresh=True)["code"] == 500
            wait_until(lambda: "WebDAV server" in get_status(path), RECOVERY_SECONDS)
            way.start()
            wait_until(lambda: get_status(path) == "work", RECOVERY_SECONDS)  # although no client uses it
