"""`mangrove backup` beside a service that writes, and `mangrove restore`."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.processes import drop_warning, end_with, mount, refuse_to_run
from tests.support.service import Client, Service, command, run_service


def run_command(*arguments: str) -> str:
    """Return the output of a command that succeeds."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)
    assert (done.returncode, drop_warning(done.stderr)) == (0, ""), done
    return done.stdout


@contextmanager
def keep_creating(service: Service) -> Iterator[list[str]]:
    """Users that are made meanwhile, as they are acknowledged."""
    ends, client, users = threading.Event(), service.client(), list[str]()

    def create() -> None:
        while not ends.is_set():
            name = uuid4().hex
            client.ok("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
            client.ok("/api/admin/meta/create", path=f"/{name}", readme=name)
            users.append(name)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield users
    finally:
        ends.set()
        thread.join()


def read_names(client: Client) -> tuple[set[str], set[str]]:
    users = client.get("/api/admin/user/list")["data"]["content"]
    metas = client.get("/api/admin/meta/list")["data"]["content"]
    return {row["username"] for row in users}, {row["path"][1:] for row in metas}


@pytest.mark.long
def test_backup_of_running_service_has_acknowledged_changes(tmp_path: Path) -> None:
    saved: list[tuple[Path, list[str]]] = []
    with run_service(tmp_path / "data") as service:
        path, answer = mount(service.client(), "S3", bucket="b", endpoint="http://127.0.0.1:9", secret_access_key="s3")
        assert answer["data"]["id"]
        with keep_creating(service) as users:
            while len(users) < 60 or len(saved) < 3:
                file, known = tmp_path / f"{len(saved)}.tar", list(users)
                said = run_command("backup", str(file), "--data", str(service.data))
                assert said.startswith(f"The backup {file} has ")
                assert "keep it safe" in said
                saved.append((file, known))
    assert len(users) >= 60
    file, known = saved[-1]
    assert len(known) > 20
    data = tmp_path / "restored"
    run_command("restore", str(file), "--data", str(data))
    with run_service(data, MANGROVE_ADMIN_PASSWORD="not this one") as restored:
        client = restored.client()
        names, metas = read_names(client)
        assert set(known) <= names
        assert set(known) <= metas
        assert restored.client(known[-1], "pw").get("/api/me")["code"] == 200
        assert read_secret(client, path) == "s3"


def read_secret(client: Client, path: str) -> str:
    """The key of the S3 storage at a path: it is sealed in the records."""
    rows = client.get("/api/admin/storage/list")["data"]["content"]
    (addition,) = [json.loads(row["addition"]) for row in rows if row["mount_path"] == path]
    return str(addition["secret_access_key"])


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with files, of a service that was ended."""
    folder = tmp_path_factory.mktemp("backup")
    with run_service(folder / "data") as service:
        admin = service.client()
        assert admin.put("/files/deep/a.txt", b"deep bytes")["code"] == 200
        assert admin.put("/files/ä ü.bin", os.urandom(3_000_000))["code"] == 200
        (service.data / "files" / "link").symlink_to("deep/a.txt")
        assert end_with(service, signal.SIGTERM)[0] == 0
    run_command("backup", str(folder / "all.tar"), "--files", "--data", str(folder / "data"))
    return folder / "all.tar"


def test_a_backup_is_for_its_owner_alone_and_leaves_nothing_beside_it(backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(path.name for path in backup.parent.iterdir()) == ["all.tar", "data", "data.log", "data.out"]


@pytest.mark.long
def test_files_come_back_with_their_storage_at_another_place(backup: Path, tmp_path: Path) -> None:
    old, data = backup.parent / "data", tmp_path / "elsewhere"
    run_command("restore", str(backup), "--data", str(data))
    assert (data / "files" / "ä ü.bin").read_bytes() == (old / "files" / "ä ü.bin").read_bytes()
    assert os.readlink(data / "files" / "link") == "deep/a.txt"
    before, after = (folder / "files" / "deep" / "a.txt" for folder in (old, data))
    assert (before.stat().st_mtime_ns // 1000, before.stat().st_mode) == (
        after.stat().st_mtime_ns // 1000, after.stat().st_mode,
    )  # fmt: skip
    with run_service(data) as service:
        admin = service.client()
        assert admin.bytes("/files/deep/a.txt").content == b"deep bytes"
        assert admin.put("/files/new.txt", b"new")["code"] == 200
    assert not (old / "files" / "new.txt").exists()


@pytest.mark.long
def test_a_restore_needs_an_empty_directory_or_force_and_no_service(backup: Path, tmp_path: Path) -> None:
    with run_service(tmp_path / "data") as service:
        line = refuse_to_run("restore", str(backup), "--force", "--data", str(service.data))
        assert line.startswith(f"the data directory {service.data} is in use by process {service.process.pid}")
        service.client().put("/files/own.txt", b"own")
        own = "own user"
        service.client().ok("/api/admin/user/create", username=own, password="pw", base_path="/", role=0)
        service.kill()
    line = refuse_to_run("restore", str(backup), "--data", str(service.data))
    assert line == f"{service.data} is not empty: --force replaces what is there"
    run_command("restore", str(backup), "--force", "--data", str(service.data))
    with run_service(service.data) as again:
        assert own not in read_names(again.client())[0]
        assert again.client().names("/files") == ["deep", "link", "ä ü.bin"]


def damage(kind: str, content: bytes) -> bytes:
    if kind == "cut off":
        return content[: len(content) // 2]
    if kind == "without its end":
        return content[: content.rindex(b"manifest.json") - 100]
    if kind == "flipped":
        return content[:700_000] + bytes([content[700_000] ^ 1]) + content[700_001:]
    return {"empty": b"", "something else": b"hello " * 5000}[kind]


@pytest.mark.parametrize("kind", ["cut off", "without its end", "flipped", "empty", "something else"])
def test_a_damaged_backup_changes_nothing(backup: Path, tmp_path: Path, kind: str) -> None:
    broken, data = tmp_path / "broken.tar", tmp_path / "data"
    broken.write_bytes(damage(kind, backup.read_bytes()))
    data.mkdir(0o700)
    (data / "key").write_bytes(b"old")
    (data / "key").chmod(0o600)
    line = refuse_to_run("restore", str(broken), "--force", "--data", str(data))
    assert str(broken) in line
    assert sorted(path.name for path in data.iterdir()) == ["key", "mangrove.lock"]
    assert (data / "key").read_bytes() == b"old"


def write_archive(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """Return an archive with a valid checksum, made by any program."""
    from hashlib import sha256

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, text in members:
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        facts: dict[str, Any] = {"format": 1, "program": "x", "created": "x", "data": "/x"}
        text = json.dumps(facts | {"sha256": sha256(content.getvalue()).hexdigest()}).encode()
        last = tarfile.TarInfo("manifest.json")
        last.size = len(text)
        archive.addfile(last, io.BytesIO(text))
    path.write_bytes(content.getvalue())


def make_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


@pytest.mark.parametrize(
    "members",
    [
        [("../outside", tarfile.REGTYPE, "")],
        [("files/../../outside", tarfile.REGTYPE, "")],
        [("/{tmp}/outside", tarfile.REGTYPE, "")],
        [("other", tarfile.REGTYPE, "")],
        [("files", tarfile.SYMTYPE, "{tmp}"), ("files/outside", tarfile.REGTYPE, "")],
        [("files", tarfile.DIRTYPE, ""), ("files/a", tarfile.SYMTYPE, "{tmp}"), ("files/a/x", tarfile.REGTYPE, "")],
        [("key", tarfile.SYMTYPE, "{tmp}/secret")],
        [("files", tarfile.DIRTYPE, ""), ("files/a", tarfile.LNKTYPE, "{tmp}/secret")],
        [("files", tarfile.DIRTYPE, ""), ("files/a", tarfile.FIFOTYPE, "")],
        [("key", tarfile.SYMTYPE, "{tmp}/outside"), ("key", tarfile.REGTYPE, "")],
    ],
)  # fmt: skip
def test_an_archive_made_to_write_elsewhere_is_refused(tmp_path: Path, members: list[tuple[str, bytes, str]]) -> None:
    (tmp_path / "secret").write_text("secret")
    made = [(name.format(tmp=tmp_path), kind, link.format(tmp=tmp_path)) for name, kind, link in members]
    write_archive(
        tmp_path / "evil.tar",
        [(make_member(*member), b"evil" if member[1] == tarfile.REGTYPE else b"") for member in made],
    )
    refuse_to_run("restore", str(tmp_path / "evil.tar"), "--data", str(tmp_path / "data"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "evil.tar", "secret"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mangrove.lock"]


def test_a_backup_of_nothing_or_into_the_data_itself_is_refused(backup: Path, tmp_path: Path) -> None:
    assert refuse_to_run("backup", str(tmp_path / "x.tar"), "--data", str(tmp_path)) == f"{tmp_path} has no records"
    data = backup.parent / "data"
    inside = str(data / "files" / "x.tar")
    assert refuse_to_run("backup", inside, "--files", "--data", str(data)) == (
        "a backup must lie outside of the data directory"
    )
    line = refuse_to_run("backup", str(tmp_path / "no" / "x.tar"), "--data", str(data))
    assert line == f"cannot write the backup {tmp_path}/no/x.tar: No such file or directory"
    line = refuse_to_run("backup", "x.tar", "--data", str(data), MANGROVE_DYNAMODB_ENDPOINT="http://127.0.0.1:9")
    assert line == "the records are kept by another engine: back them up there"


@pytest.mark.long
def test_records_without_their_key_refuse_to_start(backup: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_command("restore", str(backup), "--data", str(data))
    key = (data / "key").read_bytes()
    (data / "key").unlink()
    line = refuse_to_run("serve", "--port", "0", "--data", str(data))
    assert line.startswith(f"the key {data}/key is missing beside records.db")
    assert not (data / "key").exists()
    (data / "key").write_bytes(key)
    with run_service(data) as service:
        assert service.client().get("/api/me")["code"] == 200
