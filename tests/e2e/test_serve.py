"""`mangrove serve` and `mangrove password` as processes: starts, ends, crashes, refusals."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.service import ADMIN_PASSWORD, Client, Service, command, started

pytestmark = pytest.mark.xdist_group("serve")  # one life of a data directory
REFUSALS = 30.0  # seconds until a refused start must have ended
END_SECONDS = 8.0


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether it comes true in that time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def child(service: Service) -> int:
    """The pid of the records engine."""
    pid = service.process.pid
    (found,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert b"dynoxide" in Path(f"/proc/{found}/cmdline").read_bytes()
    return int(found)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def ended(service: Service, how: signal.Signals) -> tuple[int, float]:
    """Send the signal; the exit status and the seconds it took."""
    began = time.monotonic()
    service.process.send_signal(how)
    return service.process.wait(30), time.monotonic() - began


def refused(*arguments: str, **environment: str) -> str:
    """The one line with which a command refuses to run."""
    known = os.environ | {"MANGROVE_ADMIN_PASSWORD": ADMIN_PASSWORD} | environment
    done = subprocess.run(command(*arguments), env=known, capture_output=True, text=True, timeout=REFUSALS)
    assert (done.returncode, done.stdout) == (1, ""), (done.returncode, done.stdout, done.stderr)
    assert re.fullmatch(r"mangrove: [^\n]+\n", done.stderr), done.stderr
    return done.stderr.removeprefix("mangrove: ").strip()


def given(data: Path, user: str, typed: str) -> str:
    """What `mangrove password` prints."""
    done = subprocess.run(
        command("password", user, "--data", str(data)), input=f"{typed}\n", capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.strip()


def storage(client: Client, driver: str, **options: Any) -> tuple[str, dict[str, Any]]:
    """Mount a new storage; its path and the answer."""
    path = f"/{uuid4().hex}"
    addition = json.dumps(options)
    return path, client.post("/api/admin/storage/create", mount_path=path, driver=driver, addition=addition)


def statuses(client: Client) -> dict[str, str]:
    rows = client.get("/api/admin/storage/list")["data"]["content"]
    return {row["mount_path"]: row["status"] for row in rows}


@contextmanager
def hanging(client: Client, request: str, body: str, **headers: object) -> Iterator[socket.socket]:
    """A request whose answer does not come."""
    url = httpx.URL(client.address)
    lines = {"host": "x", "authorization": client.token} | {key.replace("_", "-"): headers[key] for key in headers}
    head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    with socket.create_connection((url.host, url.port or 80)) as connection:
        connection.sendall(f"{request} HTTP/1.1\r\n{head}\r\n{body}".encode())
        yield connection


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
    kept: dict[str, Any] = field(default_factory=dict)
    seconds_to_start: float = 0.0
    service: Service | None = None

    @property
    def now(self) -> Service:
        assert self.service is not None
        return self.service

    @property
    def admin(self) -> Client:
        return Client(self.now.address, self.token)


def everything(client: Client) -> dict[str, Any]:
    """What an administrator sees of the configuration, status texts aside."""
    kinds = ("user", "storage", "meta", "setting")
    found = {kind: client.get(f"/api/admin/{kind}/list")["data"] for kind in kinds}
    for row in found["storage"]["content"]:
        row.pop("mount_details", None)
    return found


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    data = tmp_path_factory.mktemp("life") / "deep" / "data"
    data.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as blocked, socket.create_server(("127.0.0.1", 0)) as probe:
        closed = probe.getsockname()[1]
        probe.close()
        life = Life(data, blocked)
        try:
            _first(life, closed)
            _second(life)
            yield life
        finally:
            if life.service is not None and life.service.process.poll() is None:
                life.service.kill()


def _first(life: Life, closed: int) -> None:
    service = life.service = started(life.data, MANGROVE_ADMIN_PASSWORD="")
    assert within(10, lambda: service.output.count("\n") == 2)
    life.greeting = service.output
    life.password = life.greeting.rpartition("password ")[2].split()[0]
    admin = service.client(password=life.password)
    life.token = admin.token
    life.kept["first"] = everything(admin)
    admin.ok("/api/admin/user/create", username=life.user, password="pw", base_path="/files", role=0, permission=8)
    admin.ok("/api/admin/meta/create", path=life.meta, password="folder password", p_sub=True)
    admin.envelope(admin.http.post("/api/admin/setting/save", json=[{"key": "site_title", "value": "kept"}]))
    assert admin.put("/files/kept/a.txt", b"kept bytes")["code"] == 200
    keys = {"access_key_id": "k", "secret_access_key": "s", "bucket": "b", "force_path_style": True}
    silent = f"http://127.0.0.1:{life.blocked.getsockname()[1]}"
    missing = str(life.data / "no" / "such")
    life.mounts["closed"], _ = storage(admin, "S3", endpoint=f"http://127.0.0.1:{closed}", **keys)
    life.mounts["silent"], _ = storage(admin, "S3", endpoint=silent, **keys)
    life.mounts["missing"], answer = storage(admin, "Local", root_folder_path=missing)
    life.kept["refusal"] = answer
    life.kept["before"] = everything(admin)
    engine = child(service)
    folder = json.dumps({"path": f"{life.mounts['silent']}/a"})
    with (
        hanging(admin, "PUT /api/fs/put", "beginning", file_path="/files/cut", content_length=1000000),
        hanging(admin, "POST /api/fs/list", folder, content_length=len(folder)),
        hanging(admin, "POST /api/fs/mkdir", folder, content_length=len(folder)) as waiting,
    ):
        assert within(5, lambda: bool(service.unfinished(life.data / "files")))
        began = time.monotonic()
        life.kept["meanwhile"] = admin.names("/files/kept"), admin.names("/")
        life.kept["seconds"] = time.monotonic() - began
        life.kept["waiting"] = not select.select([waiting], [], [], 0)[0]
        life.end = ended(service, signal.SIGINT)
    life.engine_ended = gone(engine)
    life.parts_left = [found.name for found in (life.data / "files").iterdir() if found.name != "kept"]


def _second(life: Life) -> None:
    began = time.monotonic()
    life.service = started(life.data, MANGROVE_ADMIN_PASSWORD="another one")
    life.seconds_to_start = time.monotonic() - began


def test_a_first_start_makes_up_a_password_and_shows_it_once(life: Life) -> None:
    lines = life.greeting.splitlines()
    assert re.fullmatch(r"Mangrove v\S+ at http://127\.0\.0\.1:\d+, data in .*/deep/data", lines[0])
    found = re.fullmatch(
        r"First start: sign in as admin with the password (\w{16}) \(it is not shown again\)", lines[1]
    )
    assert found
    assert found[1] not in life.now.output
    assert found[1] not in (life.data.parent / "data.log").read_text()


def test_a_first_start_makes_the_administrator_a_disabled_guest_and_a_place_for_files(life: Life) -> None:
    first = life.kept["first"]
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


def test_an_interrupt_ends_the_service_with_its_engine_although_an_upload_and_a_storage_hang(life: Life) -> None:
    status, seconds = life.end
    assert status == 0
    assert seconds < END_SECONDS
    assert life.engine_ended
    assert life.parts_left == []


def test_a_second_start_keeps_the_configuration_the_files_and_the_tokens(life: Life) -> None:
    now = everything(life.admin)
    for kind in ("storage", "meta", "setting"):
        assert now[kind] == life.kept["before"][kind]
    known = life.kept["before"]["user"]["content"]
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


def test_storages_that_do_not_answer_delay_no_start_and_disturb_no_others(life: Life) -> None:
    assert life.seconds_to_start < 10
    missing = f"root folder {life.data}/no/such not exists"
    refusal = life.kept["refusal"]
    prefix = "failed init storage but storage is already created: failed init storage"
    assert (refusal["code"], refusal["message"]) == (500, f"{prefix}: {missing}")
    assert within(5, lambda: statuses(life.admin)[life.mounts["missing"]] == missing)
    files, mounted = life.kept["meanwhile"]
    assert files == ["a.txt"]
    assert {path[1:] for path in life.mounts.values()} < set(mounted)
    assert life.kept["waiting"]
    assert life.kept["seconds"] < 1
    assert life.admin.post("/api/fs/list", path=life.mounts["missing"])["code"] == 500
    answer = life.admin.post("/api/fs/list", path=life.mounts["closed"])
    assert (answer["code"], answer["message"].partition(" (")[0]) == (
        500, "failed get objs: failed to list objs: the S3 server does not answer",
    )  # fmt: skip


def test_a_second_server_on_the_same_data_is_told_who_has_it(life: Life) -> None:
    line = refused("serve", "--port", "0", "--data", str(life.data))
    assert line == f"the data directory {life.data} is in use by process {life.now.process.pid} ({life.now.address})"
    assert life.admin.get("/api/me")["code"] == 200


def test_a_password_given_to_a_running_service_counts_at_once(life: Life) -> None:
    user, other = _newcomer(life), life.now.client(password=life.password)
    old = life.now.client(user, "pw")
    assert given(life.data, user, "new one") == f"The password of {user} is changed"
    assert within(1, lambda: old.get("/api/me")["code"] == 401)
    assert old.get("/api/me")["message"] == "Password has been changed, login please"
    assert Client(life.now.address).post("/api/auth/login", username=user, password="pw")["code"] == 401
    assert life.now.client(user, "new one").get("/api/me")["data"]["username"] == user
    assert other.get("/api/me")["code"] == 200


def _newcomer(life: Life) -> str:
    """The name of a new user."""
    name = uuid4().hex
    life.admin.ok("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
    return name


def test_a_password_is_made_up_and_shown_when_none_is_typed(life: Life) -> None:
    user = _newcomer(life)
    found = re.fullmatch(rf"The new password of {user} is (\S{{12,}})", given(life.data, user, ""))
    assert found
    login = {"username": user, "password": found[1]}
    assert within(1, lambda: Client(life.now.address).post("/api/auth/login", **login)["code"] == 200)


def test_a_password_for_nobody_is_refused(life: Life) -> None:
    assert refused("password", "nobody here", "--data", str(life.data)) == "there is no user nobody here"


def test_a_termination_ends_the_service_with_its_engine_and_a_hangup_at_its_start_does_not(tmp_path: Path) -> None:
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
            assert within(20, lambda: process.poll() is not None or _answers(service.address))
            assert process.poll() is None
            engine = child(service)
            status, seconds = ended(service, signal.SIGTERM)
            assert status == 0
            assert seconds < END_SECONDS
            assert gone(engine)
            assert "Traceback" not in (tmp_path / "log").read_text()
        finally:
            process.kill()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ping").text == "pong"
    except httpx.TransportError:
        return False


@dataclass
class Acknowledged:
    """Names of what the service said it has."""

    users: list[str] = field(default_factory=list)
    metas: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def make(self, client: Client, kind: str) -> None:
        """Make things of a kind until the service is no more."""
        names: list[str] = getattr(self, kind)
        try:
            while True:
                name = uuid4().hex
                assert _made(client, kind, name)["code"] == 200
                names.append(name)
        except httpx.TransportError:
            pass  # killed


def _made(client: Client, kind: str, name: str) -> dict[str, Any]:
    if kind == "users":
        return client.post("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
    if kind == "metas":
        return client.post("/api/admin/meta/create", path=f"/{name}", readme=name)
    return client.put(f"/files/{name}", name.encode() * 1000)


def test_a_crash_loses_nothing_that_was_acknowledged_and_leaves_no_engine(tmp_path: Path) -> None:
    service = started(tmp_path / "data")
    engine = child(service)
    clients = [service.client() for _ in range(3)]
    said = Acknowledged()
    kinds = ["users", "metas", "files"]
    writers = [
        threading.Thread(target=said.make, args=(client, kind)) for client, kind in zip(clients, kinds, strict=True)
    ]
    for writer in writers:
        writer.start()
    assert within(20, lambda: min(map(len, (said.users, said.metas, said.files))) >= 8)
    service.kill()
    assert within(1, lambda: gone(engine))
    for writer in writers:
        writer.join(20)
    assert given(tmp_path / "data", "admin", "after the crash") == "The password of admin is changed"
    service = started(tmp_path / "data")
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


@pytest.mark.parametrize("port", ["eighty", "65536", "-1", "٣"])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    assert refused("serve", "--data", str(tmp_path / "data"), MANGROVE_PORT=port) == f"{port} is no port"


def test_a_busy_port_is_refused(service: Service, tmp_path: Path) -> None:
    port = service.address.rpartition(":")[2]
    line = refused("serve", "--port", port, "--data", str(tmp_path / "data"))
    assert line == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_data_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for data, reason in (("file", "File exists"), ("file/data", "Not a directory")):
        line = refused("serve", "--port", "0", "--data", str(tmp_path / data))
        assert line == f"cannot write to the data directory {tmp_path / data}: {reason}"
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("binary", "beginning"),
    [
        ("/nonexistent", "the records engine is missing (/nonexistent): run `npm ci`"),
        (__file__, "the records engine does not start: "),
        ("/bin/false", "the records engine ended at once, see "),
    ],
)
def test_an_engine_that_does_not_run_is_refused(tmp_path: Path, binary: str, beginning: str) -> None:
    line = refused("serve", "--port", "0", "--data", str(tmp_path / "data"), DYNOXIDE_BIN=binary)
    assert line.startswith(beginning)


def test_a_password_nobody_could_type_is_refused(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    line = refused("serve", "--port", "0", "--data", data, MANGROVE_ADMIN_PASSWORD="x" * 2000)
    assert line == "a password may have at most 1024 characters"


def test_another_records_engine_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    line = refused("serve", "--port", "0", "--data", str(tmp_path / "data"), MANGROVE_DYNAMODB_ENDPOINT=endpoint)
    assert line.startswith(f"the records engine at {endpoint} is not usable: Could not connect")


def test_the_log_has_paths_but_no_secrets(service: Service, admin: Client, folder: str) -> None:
    user, password, sign, code = (uuid4().hex for _ in range(4))
    log = service.data.parent / f"{service.data.name}.log"
    before = len(log.read_text())
    admin.ok("/api/admin/user/create", username=user, password=password, base_path="/", role=0)
    try:
        own = service.client(user, password)
        static = f"{password}static"
        own.post("/api/auth/login/hash", username=user, password=static, otp_code=code)
        own.post("/api/fs/list", path=folder, password=f"{password}folder")
        own.http.get(f"/d{folder}/x?sign={sign}:0&type=thumb")
        own.http.get(f"/p{folder}/x", params={"sign": f"{sign}:0"}, headers={"cookie": f"token={sign}"})
        assert admin.put(f"{folder}/x", b"x", x_file_sha256=sign)["code"] == 400
        last = f"/{uuid4().hex}"
        own.http.get(last)
        assert within(2, lambda: last in log.read_text())
        text = log.read_text()[before:]
        assert f"/d{folder}/x" in text
        secret = [password, sign, code, own.token, admin.token, ADMIN_PASSWORD, "sign=", "?"]
        assert [word for word in secret if word in text] == []
        facts = [json.loads(line)["facts"] for line in text.splitlines() if '"request"' in line]
        assert {"method", "path", "status", "ms"} == set(facts[-1])
        assert (facts[-1]["method"], facts[-1]["path"], facts[-1]["status"]) == ("GET", last, 404)
    finally:
        id = {row["username"]: row["id"] for row in admin.get("/api/admin/user/list")["data"]["content"]}[user]
        admin.ok("/api/admin/user/delete", params={"id": id})


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_said_and_leaves_no_partial_file(admin: Client, small: Path) -> None:
    path, answer = storage(admin, "Local", root_folder_path=str(small), show_hidden=True)
    assert answer["code"] == 200
    try:
        assert admin.put(f"{path}/kept", b"old")["code"] == 200
        for name in ("new", "kept"):
            refusal = admin.put(f"{path}/{name}", b"x" * (3 << 20))
            assert (refusal["code"], refusal["message"]) == (
                500, f"failed to store [{name}]: no space left on the storage",
            )  # fmt: skip
        assert [found.name for found in small.iterdir()] == ["kept"]
        assert (small / "kept").read_bytes() == b"old"
        assert admin.put(f"{path}/fits", b"x" * (1 << 19))["code"] == 200
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": answer["data"]["id"]})
