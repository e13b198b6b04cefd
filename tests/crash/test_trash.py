"""Kill the service at each checkpoint of the trash: an entry is in its place or in the trash, whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from mangrove.core import checkpoints
from mangrove.drivers.part_names import TRASH
from mangrove.tree.trash.repair import FINISHING_SECONDS
from tests import servers
from tests.support.service import Client, Service, fork_service
from tests.support.waiting import wait_until

CONTENT = {"a.txt": b"first", "sub/b.txt": b"second" * 1000}
Request = Callable[[Client], Any]


class Disk:
    """The storage `/files` of a service that is killed."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.orders = folder / "orders"
        self.service: Service = fork_service(self.data, MANGROVE_KILL_AT=str(self.orders))
        self.client = self.service.client()
        for name, content in CONTENT.items():
            self.client.put(f"/files/d/{name}", content)

    def read(self, name: str = "d") -> dict[str, bytes]:
        """The files below a folder of the storage."""
        root = self.data / "files" / name
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def list_trash(self) -> list[Any]:
        rows: list[Any] = self.client.ok("/api/fs/trash/list")["content"]
        return rows

    def kill_at(self, name: str, request: Request) -> None:
        self.orders.write_text(name)
        with suppress(httpx.TransportError):
            request(self.client)
        wait_until(lambda: not self.orders.exists())
        self.service.kill()
        token = self.client.token
        self.client.http.close()
        self.service = fork_service(self.data, MANGROVE_KILL_AT=str(self.orders))
        self.client = Client(self.service.address, token)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.service.kill()


def remove(client: Client) -> None:
    client.post("/api/fs/remove", dir="/files", names=["d"])


def replace(client: Client) -> None:
    client.put("/files/d/a.txt", b"new")


def restore(client: Client) -> None:
    client.post("/api/fs/trash/restore", dir="/files", names=["d"])


def empty(client: Client) -> None:
    client.post("/api/fs/trash/empty")


def wait_for_trash(disk: Disk) -> Any:
    """The only entry of the trash, which a listing finds a moment after the kill."""
    time.sleep(FINISHING_SECONDS)
    (row,) = disk.list_trash()
    return row


def test_every_checkpoint_of_the_trash_is_killed_at() -> None:
    names = {name for name in checkpoints.NAMES if name.startswith("trash.")}
    assert names == {f"trash.{name}" for name in (
        "intended", "moving", "moved", "kept", "replaced", "deleting", "restoring", "restored",
    )}  # fmt: skip


def test_removal_killed_before_the_rename_leaves_the_folder(disk: Disk) -> None:
    disk.kill_at("trash.intended", remove)
    assert disk.read() == CONTENT
    assert disk.list_trash() == []


def test_removal_killed_after_the_rename_is_in_the_trash(disk: Disk) -> None:
    disk.kill_at("trash.moved", remove)
    assert disk.read() == {}
    assert wait_for_trash(disk)["path"] == "/files/d"
    restore(disk.client)
    assert disk.read() == CONTENT


def test_replacement_killed_before_it_happens_leaves_the_file(disk: Disk) -> None:
    disk.kill_at("trash.kept", replace)
    assert disk.read() == CONTENT
    time.sleep(FINISHING_SECONDS)
    assert disk.list_trash() == []


def test_replacement_killed_after_it_happened_keeps_both_files(disk: Disk) -> None:
    disk.kill_at("trash.replaced", replace)
    assert disk.read() == CONTENT | {"a.txt": b"new"}
    row = wait_for_trash(disk)
    assert (row["path"], row["replaced"]) == ("/files/d/a.txt", True)
    disk.client.ok("/api/fs/trash/restore", ids=[row["id"]])
    assert disk.read()["a (2).txt"] == CONTENT["a.txt"]


def test_restore_killed_before_the_rename_leaves_the_trash(disk: Disk) -> None:
    remove(disk.client)
    disk.kill_at("trash.restoring", restore)
    assert disk.read() == {}
    restore(disk.client)
    assert disk.read() == CONTENT
    assert disk.list_trash() == []


def test_restore_killed_after_the_rename_has_the_folder(disk: Disk) -> None:
    remove(disk.client)
    disk.kill_at("trash.restored", restore)
    assert disk.read() == CONTENT
    restore(disk.client)
    assert disk.read() == CONTENT
    assert disk.list_trash() == []


@pytest.fixture
def bucket(disk: Disk) -> Iterator[Any]:
    """A bucket without versioning at /bucket, by its client."""
    with servers.moto_s3() as endpoint:
        client, options = servers.make_client("s3", endpoint), servers.s3_options(endpoint, "bucket", trash_days=30)
        client.create_bucket(Bucket="bucket")
        addition = json.dumps(options)
        disk.client.ok("/api/admin/storage/create", mount_path="/bucket", driver="S3", addition=addition)
        for name, content in CONTENT.items():
            client.put_object(Bucket="bucket", Key=f"d/{name}", Body=content)
        yield client


def read_bucket(client: Any) -> list[bytes]:
    keys = [item["Key"] for item in client.list_objects_v2(Bucket="bucket")["Contents"]]
    contents = [client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys]
    return sorted(content for content in contents if content)


@pytest.mark.parametrize("checkpoint", ["trash.intended", "trash.moving", "trash.moved"])
def test_removal_from_a_bucket_that_is_killed_continues(disk: Disk, bucket: Any, checkpoint: str) -> None:
    disk.kill_at(checkpoint, lambda client: client.post("/api/fs/remove", dir="/bucket", names=["d"]))
    assert read_bucket(bucket) == sorted(CONTENT.values())
    disk.client.ok("/api/fs/remove", dir="/bucket", names=["d"])
    (row,) = disk.client.ok("/api/fs/trash/list", path="/bucket")["content"]
    assert (row["path"], row["is_dir"]) == ("/bucket/d", True)
    assert disk.client.ok("/api/fs/trash/restore", ids=[row["id"]])["done"] == [{"id": row["id"], "path": "/bucket/d"}]
    assert read_bucket(bucket) == sorted(CONTENT.values())
    assert [entry["name"] for entry in disk.client.ok("/api/fs/list", path="/bucket/d")["content"]] == ["sub", "a.txt"]


@pytest.mark.parametrize("checkpoint", ["trash.restoring", "trash.moving", "trash.restored"])
def test_restore_to_a_bucket_that_is_killed_continues(disk: Disk, bucket: Any, checkpoint: str) -> None:
    disk.client.ok("/api/fs/remove", dir="/bucket", names=["d"])
    (row,) = disk.client.ok("/api/fs/trash/list", path="/bucket")["content"]
    disk.kill_at(checkpoint, lambda client: client.post("/api/fs/trash/restore", ids=[row["id"]]))
    assert read_bucket(bucket) == sorted(CONTENT.values())
    disk.client.ok("/api/fs/trash/restore", ids=[row["id"]])
    assert read_bucket(bucket) == sorted(CONTENT.values())
    assert [entry["name"] for entry in disk.client.ok("/api/fs/list", path="/bucket/d")["content"]] == ["sub", "a.txt"]
    assert disk.client.ok("/api/fs/trash/list", path="/bucket")["content"] == []


def test_deletion_killed_before_it_happens_is_not_listed(disk: Disk) -> None:
    remove(disk.client)
    disk.kill_at("trash.deleting", empty)
    assert disk.list_trash() == []
    assert len(disk.read(TRASH)) == len(CONTENT)  # the hourly clean-up deletes it
