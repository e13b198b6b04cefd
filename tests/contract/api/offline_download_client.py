"""Helpers of the offline download tests."""

from __future__ import annotations

from typing import Any

from tests.contract.api.task_client import TaskClient, read_files
from tests.support.service import Client

KIND, TRANSFER = "offline_download", "offline_download_transfer"
ROUTE = "/api/fs/add_offline_download"


def list_done(client: Client, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"/openlist/api/task/{kind}/done")["data"]
    return rows


def ask(client: Client, url: str, path: str, **more: Any) -> dict[str, Any]:
    return client.post(ROUTE, **({"urls": [url], "path": path, "tool": "SimpleHttp"} | more))


def download_files(owner: TaskClient, url: str, **more: str) -> dict[str, bytes]:
    """The files in the folder when a download has succeeded."""
    (id,) = owner.download(url, **more)
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    assert [(task["state"], task["error"]) for task in owner.wait_for_all(TRANSFER)] == [(2, "")]
    return read_files(owner.disk)
