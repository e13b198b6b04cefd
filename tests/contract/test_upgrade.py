"""A data directory that Mangrove 0.3.0 wrote, and left in the middle of a move, is upgraded and works.

`data/mangrove-0.3.0.tar.xz` has its records and files: two users, three storages, a rule, settings, sessions, a key,
an application password, a signed link, a queued copy, and a move. It was killed when 36 of its 60 sources were left.
Copies and moves are paused in it, so that the storages can be given their new folders first.
`data/mangrove-0.3.0-backup.tar.xz` is a backup of it, with files, by the command of 0.3.0.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import ADMIN_PASSWORD, Client, Service, command, run_service
from tests.support.waiting import wait_until

ARCHIVE = Path(__file__).resolve().parents[1] / "data" / "mangrove-0.3.0.tar.xz"
BACKUP = ARCHIVE.with_name("mangrove-0.3.0-backup.tar.xz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upgrade")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (folder / "data").chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def upgraded(folder: Path) -> Iterator[Service]:
    with run_service(folder / "data") as service:
        yield service


@pytest.fixture(scope="module")
def admin(upgraded: Service, folder: Path) -> Client:
    token = Client(upgraded.address).ok("/api/auth/login", username="admin", password=ADMIN_PASSWORD)["token"]
    admin = Client(upgraded.address, token)
    for mount, root in (("/files", folder / "data" / "files"), ("/disk", folder / "disk")):
        storage = find(admin.get("/api/admin/storage/list")["data"]["content"], mount_path=mount)
        addition = json.loads(storage["addition"]) | {"root_folder_path": str(root)}
        admin.ok("/api/admin/storage/update", **storage | {"addition": json.dumps(addition)})
    return admin


def find(rows: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row[name] == value for name, value in fields.items()))


def test_upgrade_keeps_a_copy_and_notes_the_version(folder: Path, upgraded: Service) -> None:
    assert (folder / "data" / "records-version-3.db").stat().st_size > 0
    assert (folder / "data" / "schema").read_text() == "4\n"


def test_accounts_work_after_the_upgrade(admin: Client, upgraded: Service) -> None:
    names = {row["username"] for row in admin.get("/api/admin/user/list")["data"]["content"]}
    assert names == {"admin", "guest", "ann", "Bob"}
    token = Client(upgraded.address).ok("/api/auth/login", username="ann", password="a password of ann")["token"]
    ann = Client(upgraded.address, token)
    assert ann.get("/api/me")["data"]["base_path"] == "/files"
    assert [row["title"] for row in ann.get("/api/me/sshkey/list")["data"]["content"]] == ["laptop"]
    assert [row["title"] for row in admin.get("/api/me/app_password/list")["data"]["content"]] == ["phone"]


def test_configuration_is_the_same_after_the_upgrade(admin: Client, upgraded: Service) -> None:
    storages = admin.get("/api/admin/storage/list")["data"]["content"]
    assert {row["mount_path"]: row["driver"] for row in storages} == {
        "/files": "Local",
        "/disk": "Local",
        "/made": "Virtual",
    }
    assert find(admin.get("/api/admin/meta/list")["data"]["content"], path="/files/secret")["password"] == "open sesame"
    public = admin.get("/api/public/settings")["data"]
    assert public["site_title"] == "Written by 0.3.0"


def test_signed_link_of_before_opens_its_file(admin: Client, folder: Path) -> None:
    about = json.loads((folder / "about.json").read_text())
    answer = admin.http.get(f"/p/files/hello.txt?sign={about['sign']}", headers={"authorization": ""})
    assert (answer.status_code, answer.text) == (200, "hello from 0.3.0")
    assert admin.http.get("/p/files/hello.txt?sign=x:0", headers={"authorization": ""}).status_code != 200


def test_tasks_of_before_are_listed_and_go_on(admin: Client, folder: Path) -> None:
    assert [row["name"] for row in admin.get("/api/task/copy/done")["data"]] == ["copy [/files](/few) to [/disk](/)"]
    assert len(admin.get("/api/task/copy/undone")["data"]) == 1
    assert len(admin.get("/api/task/move/undone")["data"]) == 1
    rows = [{"key": f"{kind}_task_threads_num", "value": "5"} for kind in ("copy", "move")]
    admin.envelope(admin.http.post("/api/admin/setting/save", json=rows))
    wait_until(
        lambda: not admin.get("/api/task/copy/undone")["data"] and not admin.get("/api/task/move/undone")["data"]
    )
    moved = admin.get("/api/task/move/done")["data"]
    assert [(row["state"], row["error"]) for row in moved] == [("succeeded", "")]
    assert (folder / "disk" / "queued.txt").read_text() == "queued"
    assert {path.name for path in (folder / "disk" / "moved" / "many").iterdir()} == {f"{n:03}.txt" for n in range(60)}
    assert not (folder / "data" / "files" / "many").exists()


def test_backup_of_before_is_restored_and_upgraded(tmp_path: Path) -> None:
    file, data = tmp_path / "backup.tar", tmp_path / "restored"
    file.write_bytes(lzma.decompress(BACKUP.read_bytes()))
    restored = subprocess.run(command("restore", str(file), "--data", str(data)), capture_output=True, text=True)
    assert restored.returncode == 0 and "/files" in restored.stdout, restored.stderr
    with run_service(data) as service:
        assert (data / "schema").read_text() == "4\n"
        admin = service.client("admin", ADMIN_PASSWORD)
        assert admin.bytes("/files/hello.txt").text == "hello from 0.3.0"
        assert service.client("ann", "a password of ann").get("/api/me")["data"]["base_path"] == "/files"
        assert len(admin.get("/api/task/move/undone")["data"]) == 1
