"""Signals and crashes: what they end, and what they lose."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from mangrove.standalone.stopping import END_SECONDS, GRACE_SECONDS
from tests.e2e.processes import change_password, end_with, find_engine, send_unanswered
from tests.support.disks import read_only
from tests.support.proc import is_gone
from tests.support.service import Client, Service, command, start_service
from tests.support.waiting import wait_until


def test_termination_ends_service_and_early_hangup_does_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            command("serve", "--port", "0", "--data", str(data)), stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            service = Service(process, line.partition(" at ")[2].partition(",")[0], data, tmp_path / "log")
            wait_until(lambda: process.poll() is not None or is_up(service.address))
            assert process.poll() is None
            engine = find_engine(service)
            status, seconds = end_with(service, signal.SIGTERM)
            assert status == 0
            assert seconds < GRACE_SECONDS + END_SECONDS
            assert is_gone(engine)
            assert "Traceback" not in (tmp_path / "log").read_text()
        finally:
            process.kill()


@pytest.mark.parametrize("processes", ["1", "3"])
def test_interrupt_ends_service_started_in_shell_background(tmp_path: Path, processes: str) -> None:
    """There a shell has interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        service = start_service(tmp_path / "data", MANGROVE_PROCESSES=processes)
    finally:
        signal.signal(signal.SIGINT, before)
    engine = find_engine(service)
    status, _ = end_with(service, signal.SIGINT)
    assert status == 0
    assert is_gone(engine)


@pytest.mark.parametrize("fork", [2, 4])  # of the records engine, and of a process that answers
def test_termination_during_a_fork_ends_the_service(tmp_path: Path, fork: int) -> None:
    known = os.environ | {"MANGROVE_PROCESSES": "3", "SIGNALLED_FORK": str(fork)}
    done = subprocess.run(
        command("serve", "--port", "0", "--data", str(tmp_path / "data"), module="tests.support.signalled_fork"),
        env=known,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "signalled fork" in done.stderr
    assert "still hang" not in done.stderr


@pytest.mark.long
def test_a_termination_ends_the_service_when_the_engine_hangs(tmp_path: Path) -> None:
    service = start_service(tmp_path / "data")
    engine = find_engine(service)
    body = '{"username": "admin", "password": "x"}'
    headers = {"content_type": "application/json", "content_length": len(body)}
    os.kill(engine, signal.SIGSTOP)
    with send_unanswered(service.anonymous(), "POST /api/auth/login", body, **headers):
        status, seconds = end_with(service, signal.SIGTERM)
    assert status == 0
    assert seconds < GRACE_SECONDS + END_SECONDS + 10
    wait_until(lambda: is_gone(engine))


def is_up(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ping", timeout=60).text == "pong"
    except httpx.TransportError:
        return False


@dataclass
class Acknowledged:
    """Return the names that the service acknowledged."""

    users: list[str] = field(default_factory=list)
    metas: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def make(self, client: Client, kind: str) -> None:
        """Create entries of a kind until the service ends."""
        names: list[str] = getattr(self, kind)
        try:
            while True:
                name = uuid4().hex
                assert create(client, kind, name)["code"] == 200
                names.append(name)
        except httpx.TransportError:
            pass  # killed


def create(client: Client, kind: str, name: str) -> dict[str, Any]:
    if kind == "users":
        return client.post("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
    if kind == "metas":
        return client.post("/api/admin/meta/create", path=f"/{name}", readme=name)
    return client.put(f"/files/{name}", name.encode() * 1000)


@pytest.mark.long
def test_a_crash_loses_nothing_that_was_acknowledged_and_leaves_no_engine(tmp_path: Path) -> None:
    service = start_service(tmp_path / "data")
    engine = find_engine(service)
    clients = [service.client() for _ in range(3)]
    said = Acknowledged()
    kinds = ["users", "metas", "files"]
    writers = [
        threading.Thread(target=said.make, args=(client, kind)) for client, kind in zip(clients, kinds, strict=True)
    ]
    for writer in writers:
        writer.start()
    wait_until(lambda: min(map(len, (said.users, said.metas, said.files))) >= 8)
    service.kill()
    wait_until(lambda: is_gone(engine))
    for writer in writers:
        writer.join(120)
    assert change_password(tmp_path / "data", "admin", "after the crash") == "The password of admin is changed"
    service = start_service(tmp_path / "data")
    try:
        assert Client(service.address, clients[0].token).get("/api/me")["code"] == 401
        admin = service.client(password="after the crash")
        users = {row["username"] for row in admin.get("/api/admin/user/list")["data"]["content"]}
        metas = {row["path"]: row["readme"] for row in admin.get("/api/admin/meta/list")["data"]["content"]}
        assert set(said.users) <= users
        assert {f"/{name}": name for name in said.metas}.items() <= metas.items()
        assert set(said.files) <= set(admin.names("/files"))
        stored = {name: (tmp_path / "data" / "files" / name).read_bytes() for name in said.files}
        assert stored == {name: name.encode() * 1000 for name in said.files}
    finally:
        service.kill()


@pytest.mark.parametrize("processes", ["1", "3"])
def test_termination_with_a_read_only_data_directory_ends_cleanly(tmp_path: Path, processes: str) -> None:
    data = tmp_path / "data"
    service = start_service(data, MANGROVE_PROCESSES=processes)
    try:
        with read_only(data):
            assert end_with(service, signal.SIGTERM)[0] == 0
        assert "\nTraceback" not in "\n" + (tmp_path / "data.log").read_text()
    finally:
        service.kill()
    again = start_service(data)
    assert end_with(again, signal.SIGTERM)[0] == 0
