"""A user whose uploads, copies and moves are tasks between two storages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from tests.contract.api import fixtures
from tests.support.service import Client, Service

KINDS = ["upload", "copy", "move"]
DONE_STATES = {2, 4, 7}
TASK_SECONDS = 120.0  # for a task to end, on a loaded machine


class TransferClient:
    """A user with every right, a folder on /files and another Local storage, all of this test's own."""

    def __init__(self, service: Service, admin: Client, client: Client, folder: str, root: Path, mount: str) -> None:
        self.service = service
        self.admin = admin
        self.client = client
        self.folder = folder
        self.disk = fixtures.disk(service, folder)
        self.root = root
        self.mount = mount

    def start(self, kind: str, name: str = "", content: bytes = b"content", client: Client | None = None) -> str:
        """Start a task that moves a file to the other storage; return its id."""
        name, client = name or uuid4().hex, client or self.client
        if kind == "upload":
            id: str = send(client, "put", f"{self.mount}/{name}", content, prefix="/openlist")["data"]["task"]["id"]
            return id
        (self.disk / name).write_bytes(content)
        return self.carry(kind, name, client=client)

    def carry(self, kind: str, name: str, client: Client | None = None, **more: bool) -> str:
        """A new task that copies or moves an entry of the folder to the other storage; its id."""
        body = {"src_dir": self.folder, "dst_dir": self.mount, "names": [name]} | more
        tasks = (client or self.client).ok(f"/openlist/api/fs/{kind}", **body)["tasks"]
        assert len(tasks) == 1
        return str(tasks[0]["id"])

    def info(self, kind: str, id: str) -> dict[str, Any]:
        row: dict[str, Any] = self.client.ok(f"/openlist/api/task/{kind}/info", params={"tid": id})
        return row

    def wait_for(self, kind: str, id: str) -> dict[str, Any]:
        """The task's record when it is done."""
        end = time.monotonic() + TASK_SECONDS
        while (row := self.info(kind, id))["state"] not in DONE_STATES or row["end_time"] is None:
            assert time.monotonic() < end, row
            time.sleep(0.01)
        while id not in list_ids(self.client, kind, "done"):
            assert time.monotonic() < end, row
        return row

    def list_staged(self) -> set[str]:
        folder = self.service.data / "staging"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def pause(self, kind: str) -> Any:
        """No task of the kind is begun for the time of the context."""
        return fixtures.settings(self.admin, **{f"{kind}_task_threads_num": "0"})


def send(client: Client, route: str, path: str, content: bytes, prefix: str = "", **headers: str) -> dict[str, Any]:
    """Upload as a task by either route."""
    extra = {"file-path": quote(path), "as-task": "true"} | headers
    if route == "put":
        return client.envelope(client.http.put(f"{prefix}/api/fs/put", content=content, headers=extra))
    files = {"file": ("ignored", content)}
    return client.envelope(client.http.put(f"{prefix}/api/fs/form", files=files, headers=extra))


def list_ids(client: Client, kind: str, status_key: str) -> list[str]:
    return [row["id"] for row in client.get(f"/openlist/api/task/{kind}/{status_key}")["data"]]
