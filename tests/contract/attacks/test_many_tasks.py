"""Very many tasks of one user do not delay other users."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.attacks.scene import Scene
from tests.support.service import Client

TASK_COUNT = 400
WAIT_SECONDS = 120.0


@pytest.fixture
def target(fresh: Scene, tmp_path: Path) -> Iterator[Path]:
    """The storage behind `/…/t` in the user's own folder: another storage, so that a copy to it is a task."""
    id = fresh.admin.ok(
        "/api/admin/storage/create",
        mount_path=f"{fresh.base}/t",
        driver="Local",
        addition=json.dumps({"root_folder_path": str(tmp_path)}),
    )["id"]
    (fresh.disk / "many").mkdir()
    for number in range(TASK_COUNT):
        (fresh.disk / "many" / f"m{number}").write_bytes(b"m")
    yield tmp_path
    for kind in ("undone", "done"):
        rows = fresh.user.get(f"/api/task/copy/{kind}", per_page=0)["data"]
        fresh.user.http.post("/api/task/copy/delete_some", json=[row["id"] for row in rows])
    fresh.settle()
    fresh.admin.ok("/api/admin/storage/delete", params={"id": id})


def copy_many(client: Client) -> None:
    client.ok("/api/fs/copy", src_dir="/many", dst_dir="/t", names=[f"m{number}" for number in range(TASK_COUNT)])


def wait_for(path: Path) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.long
def test_small_copy_is_not_delayed_by_tasks_of_other_user(fresh: Scene, target: Path) -> None:
    other = fresh.make_user(uuid4().hex, fresh.base)
    (fresh.disk / "one").write_bytes(b"1")
    copy_many(fresh.user)
    begun = len(list(target.iterdir()))
    other.ok("/api/fs/copy", src_dir="/", dst_dir="/t", names=["one"])
    wait_for(target / "one")
    assert len(list(target.iterdir())) - begun < TASK_COUNT // 4
    assert len(list(target.iterdir())) < TASK_COUNT
