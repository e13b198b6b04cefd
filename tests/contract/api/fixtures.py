"""Fixtures that a test sets up over HTTP and removes again: users, mounts, rules, settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.service import Client, Service

ALL_RIGHTS = 0xFFFF
OFFLINE_DOWNLOAD, READ_ARCHIVES, DECOMPRESS = 1 << 2, 1 << 12, 1 << 13
WRITE, RENAME, MOVE, COPY, DELETE = 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7
OBJECT = {"name", "size", "is_dir", "modified", "created", "sign", "thumb", "type", "hashinfo", "hash_info"}
NOTHING_THERE = "there is nothing at this address"
NOT_MOUNTED = "no storage is mounted at this address"


def disk(service: Service, path: str) -> Path:
    """Return the place on disk of a tree path below /files."""
    return service.data / "files" / path.removeprefix("/files").lstrip("/")


@contextmanager
def user(service: Service, admin: Client, permission: int, base_path: str = "/") -> Iterator[Client]:
    """A new normal user, signed in."""
    name, password = uuid4().hex, "a password of some length"
    admin.ok(
        "/api/admin/user/create", username=name, password=password, base_path=base_path, permission=permission, role=0
    )
    try:
        yield Client(service.address, admin.ok("/api/auth/login", username=name, password=password)["token"])
    finally:
        rows = admin.get("/api/admin/user/list")["data"]["content"]
        number = next(row["id"] for row in rows if row["username"] == name)
        admin.ok("/api/admin/user/delete", params={"id": number})


@contextmanager
def mount(admin: Client, driver: str, path: str = "", addition: Any = None, **fields: Any) -> Iterator[str]:
    """A new storage; its mount path."""
    path = path or f"/{uuid4().hex}"
    fields |= {"mount_path": path, "driver": driver, "addition": json.dumps(addition or {})}
    number = admin.ok("/api/admin/storage/create", **fields)["id"]
    try:
        yield path
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": number})


@contextmanager
def local(admin: Client, root: Path, path: str = "", addition: Any = None, **fields: Any) -> Iterator[str]:
    """A new Local storage on the folder `root`."""
    options = {"root_folder_path": str(root), "show_hidden": True} | (addition or {})
    with mount(admin, "Local", path, options, **fields) as mounted:
        yield mounted


@contextmanager
def virtual(admin: Client, path: str = "", **fields: Any) -> Iterator[str]:
    """A new Virtual storage without anything in it."""
    nothing = {"num_file": 0, "num_folder": 0, "max_file_size": 10, "min_file_size": 1}
    with mount(admin, "Virtual", path, nothing, **fields) as mounted:
        yield mounted


@contextmanager
def meta(admin: Client, path: str, **fields: Any) -> Iterator[None]:
    """A new rule at a path."""
    admin.ok("/api/admin/meta/create", path=path, **fields)
    try:
        yield
    finally:
        rows = admin.get("/api/admin/meta/list")["data"]["content"]
        number = next(row["id"] for row in rows if row["path"] == path)
        admin.ok("/api/admin/meta/delete", params={"id": number})


@contextmanager
def settings(admin: Client, **values: str) -> Iterator[None]:
    """Other values for the time of the context."""
    before = {key: admin.get("/api/admin/setting/get", key=key)["data"]["value"] for key in values}
    save(admin, values)
    try:
        yield
    finally:
        save(admin, before)


def save(admin: Client, values: dict[str, str]) -> None:
    rows = [{"key": key, "value": value} for key, value in values.items()]
    answer = admin.envelope(admin.http.post("/api/admin/setting/save", json=rows))
    assert answer["code"] == 200, answer


def fill(admin: Client, folder: str, *names: str) -> None:
    """Files holding their own name; a name that ends with a slash is a folder."""
    for name in names:
        if name.endswith("/"):
            admin.ok("/api/fs/mkdir", path=f"{folder}/{name}")
        else:
            answer = admin.put(f"{folder}/{name}", name.encode())
            assert answer["code"] == 200, answer


def list_names(client: Client, path: str, **body: Any) -> list[str]:
    """Names in the order of the answer."""
    return [row["name"] for row in client.ok("/api/fs/list", path=path, **body)["content"]]


def read_tree(service: Service, folder: str) -> dict[str, str]:
    """All files below a folder, from disk."""
    root = disk(service, folder)
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def check_failure(answer: dict[str, Any], code: int, message: str) -> None:
    assert (answer["code"], answer["message"], answer["data"]) == (code, message, None)
