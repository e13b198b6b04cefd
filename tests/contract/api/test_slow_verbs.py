"""Operations that exceed the time of a request continue as a task.

For existing clients the answer contains it; in the native interface it does not. Both find it among their tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.task_client import wait_until
from tests.servers.object_store import object_store
from tests.support.service import Client, Service

NAMES = [f"{number:07}" for number in range(25)]
CALL_MILLISECONDS = 2100.0  # at this pace NAMES take longer than a request may
WAIT_SECONDS = 120.0


class Mounted:
    """A bucket behind a server that is slow to remove, and a user who may do everything there."""

    def __init__(self, client: Client, endpoint: str, bucket: str, path: str) -> None:
        self.client = client
        self.path = path
        self.store = servers.make_client("s3", endpoint)
        self._bucket = bucket

    def put(self, *keys: str) -> None:
        for key in keys:
            self.store.put_object(Bucket=self._bucket, Key=key, Body=b"x")

    def list_keys(self) -> list[str]:
        return [stored["Key"] for stored in self.store.list_objects_v2(Bucket=self._bucket).get("Contents", [])]

    def ask(self, dialect: str, verb: str, **body: Any) -> dict[str, Any]:
        answer = self.client.post(f"{dialect}/api/fs/{verb}", **body)
        assert answer["code"] == 200, answer
        return answer

    def wait(self) -> list[dict[str, Any]]:
        """The tasks when none is left undone; they are cleared."""
        wait_until(lambda: not self.client.get("/api/task/move/undone")["data"], WAIT_SECONDS)
        rows: list[dict[str, Any]] = self.client.get("/api/task/move/done")["data"]
        self.client.ok("/api/task/move/clear_done")
        return rows


@contextmanager
def mount(service: Service, admin: Client, **milliseconds: float) -> Iterator[Mounted]:
    with object_store(**milliseconds) as endpoint, fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        bucket = servers.make_bucket(endpoint)
        with fixtures.mount(admin, "S3", addition=servers.s3_options(endpoint, bucket)) as path:
            yield Mounted(client, endpoint, bucket, path)


@pytest.mark.parametrize("dialect", ["", "/openlist"])
def test_a_removal_goes_on_as_one_task(service: Service, admin: Client, dialect: str) -> None:
    with mount(service, admin, DELETE=CALL_MILLISECONDS) as mounted:
        mounted.put(*(f"d/{name}" for name in NAMES), "d/kept")
        answer = mounted.ask(dialect, "remove", dir=f"{mounted.path}/d", names=NAMES)
        rows = mounted.wait()
        check_carried(answer, dialect, rows, f"remove [{mounted.path}](/d/{NAMES[1]} and 23 more)", "")
        assert mounted.list_keys() == ["d/kept"]


@pytest.mark.parametrize("dialect", ["", "/openlist"])
def test_files_are_gathered_by_one_task(service: Service, admin: Client, dialect: str) -> None:
    with mount(service, admin, DELETE=CALL_MILLISECONDS) as mounted:
        mounted.put(*(f"d/{name}/{name}" for name in NAMES), "to/.mangrove")
        ends = {"src_dir": f"{mounted.path}/d", "dst_dir": f"{mounted.path}/to"}
        answer = mounted.ask(dialect, "recursive_move", **ends, conflict_policy="cancel")
        rows = mounted.wait()
        moved = "Successfully moved 1 file, tasks move the others"
        name = f"move [{mounted.path}](/d/{NAMES[1]}/{NAMES[1]} and 23 more) to [{mounted.path}](/to)"
        check_carried(answer, dialect, rows, name, moved)
        assert {f"to/{name}" for name in NAMES} <= set(mounted.list_keys())
        assert not any(key.endswith(f"/{name}/{name}") for key in mounted.list_keys() for name in NAMES)


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["", "/openlist"])
def test_empty_folders_are_removed_by_a_task_when_a_request_is_over(
    service: Service, admin: Client, dialect: str
) -> None:
    with mount(service, admin, POST=CALL_MILLISECONDS) as mounted:  # which removes marks of folders
        mounted.put(*(f"d/{name}/.mangrove" for name in NAMES), "d/full/file")
        answer = mounted.ask(dialect, "remove_empty_directory", src_dir=f"{mounted.path}/d")
        rows = mounted.wait()
        check_carried(answer, dialect, rows, f"remove_empty_directory [{mounted.path}](/d)", "")
        assert mounted.list_keys() == ["d/full/file"]


def check_carried(answer: dict[str, Any], dialect: str, rows: list[dict[str, Any]], name: str, moved: str) -> None:
    """The one task of `rows` has that name and ended well; the answer says what its dialect can say."""
    (row,) = rows
    assert (row["name"], row["state"], row["error"]) == (name, "succeeded", "")
    if not dialect:
        assert (answer["message"], answer["data"]) == ("success", None)
        return
    (task,) = answer["data"]["tasks"]
    assert answer["data"]["message"] == "Successfully created 1 move task(s)"
    assert (task["id"], task["name"]) == (row["id"], name)
    assert answer["message"] == (moved or "success")
