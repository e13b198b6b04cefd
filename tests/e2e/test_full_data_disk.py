"""A data disk that another program fills: signing in and reading go on, and storages elsewhere are written to."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.disks import mount_small
from tests.support.service import ADMIN_PASSWORD, Client, run_service

WAIT_SECONDS = 120.0
FILL_ATTEMPTS = 20
DISK_FULL = "the data disk is full"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 32 mebibytes."""
    with mount_small(tmp_path / "small", "32m") as folder:
        yield folder


def fill(file: Path) -> None:
    """Take what is free now, and none of what is freed meanwhile."""
    for _ in range(FILL_ATTEMPTS):  # the service may write between the look and the call
        with file.open("wb") as written:
            try:
                os.posix_fallocate(written.fileno(), 0, shutil.disk_usage(file.parent).free - 4096)
                return
            except OSError as error:
                assert error.errno == errno.ENOSPC
    raise AssertionError("the disk cannot be filled")


def can_sign_in(client: Client) -> bool:
    return client.post("/api/auth/login", username="admin", password=ADMIN_PASSWORD)["code"] == 200


def test_service_on_a_full_data_disk_reads_and_writes_elsewhere(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with run_service(small / "data") as service:
        client, reserve = service.client(), small / "data" / ".reserve"
        addition = json.dumps({"root_folder_path": str(other)})
        client.ok("/api/admin/storage/create", mount_path="/other", driver="Local", addition=addition)
        assert client.put("/files/old", b"old")["code"] == 200
        assert reserve.stat().st_size == 8 << 20
        fill(small / "filler")
        wait_for_size(reserve, 0)
        for number in range(3):
            assert can_sign_in(client)
            assert client.bytes("/files/old").content == b"old"
            assert client.put(f"/other/{number}", b"new")["code"] == 200
            client.ok("/api/fs/mkdir", path=f"/other/folder{number}")
            refusal = client.put("/files/new", b"new")
            assert (refusal["code"], refusal["message"]) == (500, f"failed to store [new]: {DISK_FULL}")
        assert client.names("/files") == ["old"]
        assert client.http.get("/health").status_code == 503
        client.ok("/api/fs/remove", dir="/files", names=["old"])
        (small / "filler").unlink()
        wait_for_size(reserve, 8 << 20)
        assert client.put("/files/new", b"new")["code"] == 200


def test_copy_between_other_storages_ends_on_a_full_data_disk(small: Path, tmp_path: Path) -> None:
    with run_service(small / "data") as service:
        client = service.client()
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            addition = json.dumps({"root_folder_path": str(tmp_path / name)})
            client.ok("/api/admin/storage/create", mount_path=f"/{name}", driver="Local", addition=addition)
        (tmp_path / "one" / "tree").mkdir()
        for number in range(50):
            (tmp_path / "one" / "tree" / str(number)).write_text(str(number))
        fill(small / "filler")
        wait_for_size(small / "data" / ".reserve", 0)
        client.ok("/api/fs/copy", src_dir="/one", dst_dir="/two", names=["tree"])
        end = time.monotonic() + WAIT_SECONDS
        while client.get("/api/task/copy/undone")["data"]:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert client.get("/api/task/copy/done")["data"][0]["error"] == ""
        assert sorted((tmp_path / "two" / "tree").iterdir()) == [
            tmp_path / "two" / "tree" / name for name in sorted(map(str, range(50)))
        ]


def wait_for_size(file: Path, size: int) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while True:
        with suppress(FileNotFoundError):
            if file.stat().st_size == size:
                return
        assert time.monotonic() < end, f"{file} has not {size} bytes"
        time.sleep(0.05)
