"""A user of tasks: a folder and a storage of their own, and their tasks until they are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.contract.api import fixtures
from tests.support.service import Client, Service

DONE_STATES = {2, 4, 7}
TASK_SECONDS = 120.0  # for a task to end, on a loaded machine
OFFLINE_DOWNLOAD, READ_ARCHIVES, DECOMPRESS = 1 << 2, 1 << 12, 1 << 13
KINDS = ("offline_download", "offline_download_transfer", "decompress", "decompress_upload")

Row = dict[str, Any]


def wait_until(holds: Callable[[], Any], seconds: float = TASK_SECONDS) -> Any:
    """Return the result of `holds` as soon as it is true."""
    begun = time.monotonic()
    while not (result := holds()):
        waited = time.monotonic() - begun
        assert waited < seconds, f"still {result!r} after {seconds} seconds"
        time.sleep(min(0.01 + waited / 10, 0.1))
    return result


class TaskClient:
    """`folder` is a tree path on /files and `disk` that folder; `mount` is another Local storage and `root` its folder.

    `client` has every right and sees no tasks of others.
    """

    def __init__(self, service: Service, admin: Client, client: Client, disk: Path, mount: str, root: Path) -> None:
        self.service = service
        self.admin = admin
        self.client = client
        self.disk = disk
        self.folder = f"/files/{disk.name}"
        self.mount = mount
        self.root = root

    def download(self, *urls: str, path: str = "", tool: str = "SimpleHttp", **more: str) -> list[str]:
        """Ask for downloads into `path`, the folder when it is not given; the ids of the tasks."""
        body = {"urls": list(urls), "path": path or self.folder, "tool": tool} | more
        return [row["id"] for row in self.client.ok("/openlist/api/fs/add_offline_download", **body)["tasks"]]

    def unpack(self, *names: str, into: str = "", **more: Any) -> list[str]:
        """Ask for archives of the folder to be unpacked into `into`, the other storage when it is not given."""
        body = {"src_dir": self.folder, "dst_dir": into or self.mount, "name": list(names)} | more
        return [row["id"] for row in self.client.ok("/openlist/api/fs/archive/decompress", **body)["task"]]

    def info(self, kind: str, id: str) -> Row:
        row: Row = self.client.ok(f"/openlist/api/task/{kind}/info", params={"tid": id})
        return row

    def ask(self, verb: str, kind: str, id: str) -> None:
        """Cancel, retry or delete."""
        assert self.client.ok(f"/openlist/api/task/{kind}/{verb}", params={"tid": id}) is None

    def wait_for(self, kind: str, id: str, seconds: float = TASK_SECONDS) -> Row:
        """The task's record when it is done."""

        def done() -> Row | None:
            row = self.info(kind, id)
            return row if row["state"] in DONE_STATES and row["end_time"] is not None else None

        row: Row = wait_until(done, seconds)
        return row

    def wait_for_all(self, kind: str, seconds: float = TASK_SECONDS) -> list[Row]:
        """All tasks of a kind, the oldest first, when none is left undone."""
        wait_until(lambda: not self.client.get(f"/openlist/api/task/{kind}/undone")["data"], seconds)
        rows: list[Row] = self.client.get(f"/openlist/api/task/{kind}/done")["data"]
        return sorted(rows, key=lambda row: str(row["start_time"]))

    def list_staged(self) -> set[str]:
        """The paths of all files in staging, as seen from there."""
        top = self.service.data / "staging"
        return {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()} if top.exists() else set()

    def grant(self, permission: int) -> None:
        """Set the rights of the user."""
        name = self.client.get("/api/me")["data"]["username"]
        rows = self.admin.get("/api/admin/user/list")["data"]["content"]
        row = next(user for user in rows if user["username"] == name)
        self.admin.ok("/api/admin/user/update", **(row | {"permission": permission}))

    def close(self) -> None:
        """Cancel and delete all tasks."""
        self.grant(fixtures.ALL_RIGHTS)
        for kind in KINDS:
            for row in self.client.get(f"/openlist/api/task/{kind}/undone")["data"]:
                self.client.post(f"/openlist/api/task/{kind}/cancel", params={"tid": row["id"]})
        for kind in KINDS:
            for row in self.wait_for_all(kind):
                self.ask("delete", kind, row["id"])


@contextmanager
def task_client(service: Service, admin: Client, root: Path) -> Iterator[TaskClient]:
    """One for the time of the context; `root` becomes the folder of the other storage."""
    root.mkdir(parents=True)
    name = uuid4().hex
    admin.ok("/api/fs/mkdir", path=f"/files/{name}")
    with fixtures.local(admin, root) as mount, fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        made = TaskClient(service, admin, client, fixtures.disk(service, f"/files/{name}"), mount, root)
        yield made
        made.close()


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
