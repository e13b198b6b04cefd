"""Helpers of the unpacking tests."""

from __future__ import annotations

from typing import Any

from tests.contract.api.task_client import Row, TaskClient
from tests.support.service import Client

KIND, UPLOAD = "decompress", "decompress_upload"
ROUTE = "/api/fs/archive/decompress"
MIB = 1 << 20


def ask(client: Client, owner: TaskClient, *names: str, **more: Any) -> dict[str, Any]:
    return client.post(ROUTE, **({"src_dir": owner.folder, "dst_dir": owner.mount, "name": list(names)} | more))


def write_file(owner: TaskClient, name: str, content: bytes) -> None:
    (owner.disk / name).write_bytes(content)


def unpack_whole(owner: TaskClient, name: str, **more: Any) -> Row:
    """Return the record of the upload that follows an archive that was unpacked completely."""
    (id,) = owner.unpack(name, **more)
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    return owner.wait_for_all(UPLOAD)[-1]


def unpack_in_vain(owner: TaskClient, name: str, **more: Any) -> str:
    """Return the error of a task that has failed without storing or leaving a file."""
    (id,) = owner.unpack(name, **more)
    row = owner.wait_for(KIND, id)
    assert row["state"] == 7, row
    assert owner.wait_for_all(UPLOAD) == []
    assert not [path for path in owner.list_staged() if path.startswith(id)]
    return str(row["error"])
