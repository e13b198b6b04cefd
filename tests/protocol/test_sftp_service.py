"""An SFTP storage through the interface."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from mangrove.tasks.core.file_copy import MAX_WHOLE_BYTES
from tests.servers import ssh
from tests.support.service import Client

pytestmark = pytest.mark.xdist_group("sftp")


def get_storage(admin: Client, mount_path: str) -> dict[str, object]:
    rows = admin.get("/api/admin/storage/list")["data"]["content"]
    (storage,) = [row for row in rows if row["mount_path"] == mount_path]
    return dict(storage)


def test_the_key_is_pinned_in_the_record_and_a_new_one_accepted_there(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"f")
    mount = f"/sftp-{uuid4().hex}"
    with ssh.python_ssh(tmp_path) as server:
        record = {"mount_path": mount, "driver": "SFTP", "addition": json.dumps(server.options(host_key=""))}
        admin.ok("/api/admin/storage/create", **record)
        stored = get_storage(admin, mount)
        assert stored["status"] == "work"
        assert json.loads(str(stored["addition"]))["host_key"] == ssh.make_host_key()
        assert admin.names(mount) == ["f"]
        server.restart(host_keys=("new host",))
        admin.post("/api/admin/storage/update", **stored)
        changed = get_storage(admin, mount)
        for name in ("host", "new host"):
            assert ssh.make_key(name).get_fingerprint() in str(changed["status"])
        changed["addition"] = json.dumps(json.loads(str(changed["addition"])) | {"host_key": ""})
        admin.ok("/api/admin/storage/update", **changed)
        assert json.loads(str(get_storage(admin, mount)["addition"]))["host_key"] == ssh.make_host_key("new host")
        assert admin.names(mount) == ["f"]
        admin.ok("/api/admin/storage/delete", params={"id": stored["id"]})


def test_a_large_file_is_copied_to_a_server_that_takes_no_parts(admin: Client, folder: str, tmp_path: Path) -> None:
    """rclone without a cache writes into no file that is there: the task stores the file in one go."""
    written, files, mount = os.urandom(MAX_WHOLE_BYTES + 1), tmp_path / "files", f"/sftp-{uuid4().hex}"
    files.mkdir()
    with ssh.rclone_sftp(files) as port:
        addition = json.dumps(ssh.rclone_options(port))
        stored = admin.ok("/api/admin/storage/create", mount_path=mount, driver="SFTP", addition=addition)
        admin.put(f"{folder}/big", written)
        admin.ok("/api/fs/copy", src_dir=folder, dst_dir=mount, names=["big"])
        end = time.monotonic() + 120
        while not (files / "big").exists():
            assert time.monotonic() < end, admin.get("/api/task/copy/done")
            time.sleep(0.1)
        assert (files / "big").read_bytes() == written
        assert os.listdir(files) == ["big"]
        admin.ok("/api/admin/storage/delete", params={"id": stored["id"]})
