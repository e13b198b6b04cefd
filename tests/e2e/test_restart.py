"""A service that is started for the first time, filled, ended in the middle of work and started again."""

from __future__ import annotations

import json
import re
import select
import signal
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.processes import END_SECONDS, end_with, find_engine, mount, send_unanswered
from tests.servers import closed_port
from tests.support.proc import is_gone
from tests.support.service import Client, Service, start_service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("serve")  # one life of a data directory


@dataclass
class Life:
    """A service that was started, filled, ended and started again."""

    data: Path
    blocked: socket.socket
    greeting: str = ""
    password: str = ""
    token: str = ""
    end: tuple[int, float] = (-1, 0.0)
    engine_ended: bool = False
    parts_left: list[str] = field(default_factory=list)
    user: str = f"u{uuid4().hex}"
    meta: str = f"/{uuid4().hex}"
    mounts: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    seconds_to_start: float = 0.0
    service: Service | None = None

    @property
    def now(self) -> Service:
        assert self.service is not None
        return self.service

    @property
    def admin(self) -> Client:
        return Client(self.now.address, self.token)


def read_configuration(client: Client) -> dict[str, Any]:
    """Return what an administrator sees of the configuration, without the space of storages."""
    kinds = ("user", "storage", "meta", "setting")
    rows_by_kind = {kind: client.get(f"/api/admin/{kind}/list")["data"] for kind in kinds}
    for row in rows_by_kind["storage"]["content"]:
        row.pop("mount_details", None)
    return rows_by_kind


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    data = tmp_path_factory.mktemp("life") / "deep" / "data"
    data.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as blocked, closed_port() as closed:
        life = Life(data, blocked)
        try:
            run_first(life, closed)
            run_second(life)
            yield life
        finally:
            if life.service is not None and life.service.process.poll() is None:
                life.service.kill()


def run_first(life: Life, closed: int) -> None:
    service = life.service = start_service(life.data, MANGROVE_ADMIN_PASSWORD="")
    wait_until(lambda: service.output.count("\n") == 2)
    life.greeting = service.output
    life.password = life.greeting.rpartition("password ")[2].split()[0]
    admin = service.client(password=life.password)
    life.token = admin.token
    life.seen["first"] = read_configuration(admin)
    admin.ok("/api/admin/user/create", username=life.user, password="pw", base_path="/files", role=0, permission=8)
    admin.ok("/api/admin/meta/create", path=life.meta, password="folder password", p_sub=True)
    admin.envelope(admin.http.post("/api/admin/setting/save", json=[{"key": "site_title", "value": "kept"}]))
    assert admin.put("/files/kept/a.txt", b"kept bytes")["code"] == 200
    keys = {"access_key_id": "k", "secret_access_key": "s", "bucket": "b", "force_path_style": True}
    silent = f"http://127.0.0.1:{life.blocked.getsockname()[1]}"
    missing = str(life.data / "no" / "such")
    life.mounts["closed"], _ = mount(admin, "S3", endpoint=f"http://127.0.0.1:{closed}", **keys)
    life.mounts["silent"], _ = mount(admin, "S3", endpoint=silent, **keys)
    life.mounts["missing"], answer = mount(admin, "Local", root_folder_path=missing)
    life.seen["refusal"] = answer
    life.seen["before"] = read_configuration(admin)
    engine = find_engine(service)
    folder = json.dumps({"path": f"{life.mounts['silent']}/a"})
    with (
        send_unanswered(admin, "PUT /api/fs/put", "beginning", file_path="/files/cut", content_length=1000000),
        send_unanswered(admin, "POST /api/fs/list", folder, content_length=len(folder)),
        send_unanswered(admin, "POST /api/fs/mkdir", folder, content_length=len(folder)) as waiting,
    ):
        wait_until(lambda: bool(service.find_unfinished(life.data / "files")))
        began = time.monotonic()
        life.seen["meanwhile"] = admin.names("/files/kept"), admin.names("/")
        life.seen["seconds"] = time.monotonic() - began
        life.seen["waiting"] = not select.select([waiting], [], [], 0)[0]
        life.end = end_with(service, signal.SIGINT)
    life.engine_ended = is_gone(engine)
    life.parts_left = [path.name for path in (life.data / "files").iterdir() if path.name != "kept"]


def run_second(life: Life) -> None:
    began = time.monotonic()
    life.service = start_service(life.data, MANGROVE_ADMIN_PASSWORD="another one")
    life.seconds_to_start = time.monotonic() - began


def test_a_first_start_makes_up_a_password_and_shows_it_once(life: Life) -> None:
    lines = life.greeting.splitlines()
    assert re.fullmatch(r"Mangrove v\S+ at http://127\.0\.0\.1:\d+, data in .*/deep/data", lines[0])
    match = re.fullmatch(
        r"First start: sign in as admin with the password (\w{16}) \(it is not shown again\)", lines[1]
    )
    assert match
    assert match[1] not in life.now.output
    assert match[1] not in (life.data.parent / "data.log").read_text()


def test_first_start_creates_administrator_guest_and_storage(life: Life) -> None:
    first = life.seen["first"]
    accounts = {row["username"]: row for row in first["user"]["content"]}
    assert set(accounts) == {"admin", "guest"}
    admin, guest = accounts["admin"], accounts["guest"]
    assert (admin["id"], admin["role"], admin["permission"], admin["base_path"]) == (1, 2, 0x71FF, "/")
    assert not admin["disabled"]
    assert (guest["role"], guest["disabled"], guest["permission"]) == (1, True, 0)
    (files,) = first["storage"]["content"]
    assert (files["mount_path"], files["driver"], files["status"]) == ("/files", "Local", "work")
    assert json.loads(files["addition"])["root_folder_path"] == str(life.data / "files")
    assert first["meta"]["content"] == []


def test_interrupt_ends_service_despite_hung_upload_and_storage(life: Life) -> None:
    status, seconds = life.end
    assert status == 0
    assert seconds < END_SECONDS
    assert life.engine_ended
    assert life.parts_left == []


def test_a_second_start_keeps_the_configuration_the_files_and_the_tokens(life: Life) -> None:
    now, before = read_configuration(life.admin), life.seen["before"]
    for row in (*now["storage"]["content"], *before["storage"]["content"]):
        row.pop("status", None)  # it follows the use of the storage
    for kind in ("storage", "meta", "setting"):
        assert now[kind] == before[kind]
    known = life.seen["before"]["user"]["content"]
    assert now["user"]["content"][: len(known)] == known
    assert life.admin.get("/api/me")["data"]["username"] == "admin"
    assert life.admin.bytes("/files/kept/a.txt").content == b"kept bytes"
    assert life.now.client(life.user, "pw").names("/kept") == ["a.txt"]


def test_a_second_start_ignores_the_password_of_the_environment(life: Life) -> None:
    login = Client(life.now.address).post("/api/auth/login", username="admin", password="another one")
    assert login["code"] == 401


def test_secrets_are_for_the_owner_alone(life: Life) -> None:
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in life.data.iterdir() if path.is_file()}
    assert {"key", "mangrove.lock", "records.db", "engine.log"} <= set(names)
    assert {name: oct(mode) for name, mode in names.items() if mode != 0o600} == {}
    stored = b"".join(path.read_bytes() for path in life.data.glob("records.db*"))
    assert life.user.encode() in stored
    assert b"folder password" not in stored


def list_statuses(client: Client) -> dict[str, str]:
    rows = client.get("/api/admin/storage/list")["data"]["content"]
    return {row["mount_path"]: row["status"] for row in rows}


def test_storages_that_do_not_answer_delay_no_start_and_disturb_no_others(life: Life) -> None:
    assert life.seconds_to_start < 60
    missing = f"root folder {life.data}/no/such not exists"
    refusal = life.seen["refusal"]
    prefix = "failed init storage but storage is already created: failed init storage"
    assert (refusal["code"], refusal["message"]) == (500, f"{prefix}: {missing}")
    wait_until(lambda: list_statuses(life.admin)[life.mounts["missing"]] == missing)
    files, mounted = life.seen["meanwhile"]
    assert files == ["a.txt"]
    assert {path[1:] for path in life.mounts.values()} < set(mounted)
    assert life.seen["waiting"]
    assert life.seen["seconds"] < 15
    assert life.admin.post("/api/fs/list", path=life.mounts["missing"])["code"] == 500
    answer = life.admin.post("/api/fs/list", path=life.mounts["closed"])
    assert (answer["code"], answer["message"].partition(" (")[0]) == (
        500, "failed get objs: failed to list objs: the S3 server does not answer",
    )  # fmt: skip
