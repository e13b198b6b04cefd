"""Helpers of the attack tests: texts, the fields of every route, a user with neighbours, traces of an attack."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4
from zipfile import ZipFile, ZipInfo

import httpx
import pytest

from mangrove.identity.rights import Right
from mangrove.tasks.core.registry import KINDS
from tests.support.document import get_document
from tests.support.service import PROCESSES, TRASH_NAME, Client, Service

PASSWORD = "wrong horse battery"
EVERYTHING = Right.WRITE | Right.RENAME | Right.MOVE | Right.COPY | Right.DELETE
EVERYTHING |= Right.READ_ARCHIVES | Right.DECOMPRESS | Right.OFFLINE_DOWNLOAD
SMALL = 1 << 16  # bytes; of larger files the size and the time are compared
TASK_SECONDS = 120.0
OWN_FILES = ("f.txt", "g.txt", "sub/h.txt")
NEIGHBOURS = ("ab", "a.", "a ", "A", "b")
CONFINEMENTS = pytest.mark.parametrize(
    "service", ["", "walking"], indirect=True, ids=["openat2", "walk"], scope="module"
)
"""Parameters for attacks on the disk: both ways in which Local confines paths to its root, by the kernel and folder
by folder.
"""

PARENT_PATHS = (
    "..", "../", "..\\", "/..", "%2e%2e%2f", "%252e%252e%252f", "....//", "\udcc0\udcae\udcc0\udcae/", "%c0%ae%c0%ae/",
    "..\0/", "..%00/", "//", "//../", ".. /", "..;/", "a/../../", "sub/../../", "./.././", "．．／", "../" * 12,
)  # fmt: skip
BARE = ("", ".", "\0", "a/b", "a\\b", "b", "b/notes.txt", "ab.", "ab ", "f.txt\0", "f.txt.", "f.txt ", "~", "*", "/")


@dataclass(frozen=True, slots=True)
class Field:
    """A text in a request: `where` is body, query, header or path, `name` as in `rename_objects[].new_name`."""

    where: str
    name: str


@cache
def operations() -> dict[str, dict[str, Any]]:
    """`METHOD route` → the operation in the OpenAPI document."""
    return {
        f"{method.upper()} {route}": operation
        for route, methods in sorted(get_document()["paths"].items())
        for method, operation in sorted(methods.items())
    }


def fields(name: str) -> set[Field]:
    """Every text that an operation takes, without bodies of bytes and the key of a request (api/test_request_keys)."""
    operation = operations()[name]
    names = {
        Field(parameter["in"], parameter["name"] + rest)
        for parameter in operation.get("parameters", ())
        if parameter["name"] != "Idempotency-Key"
        for rest in _texts(parameter["schema"], "")
    }
    for content in operation.get("requestBody", {}).get("content", {}).values():
        names |= {Field("body", text) for text in _texts(content["schema"], "")}
    return names


def _texts(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    while "$ref" in schema:
        schema = get_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for kind in ("anyOf", "allOf", "oneOf"):
        for variant in schema.get(kind, ()):
            yield from _texts(variant, at)
    if schema.get("type") == "string" and schema.get("format") != "binary":
        yield at
    if "items" in schema:
        yield from _texts(schema["items"], f"{at}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _texts(schema["additionalProperties"], f"{at}{{}}")
    for name, below in schema.get("properties", {}).items():
        yield from _texts(below, f"{at}.{name}".removeprefix("."))


def replace_text(request: Any, name: str, text: str) -> Any:
    """A copy of the request's body or query with `text` at the place that `name` describes."""
    whole = {"": deepcopy(request)}
    holder: Any = whole
    key: Any = ""
    for step in name.replace("[]", ".[]").strip(".").split("."):
        holder, key = holder[key], 0 if step == "[]" else step
    holder[key] = text
    return whole[""]


def send(client: Client, name: str, request: Any, content: bytes = b"new") -> httpx.Response:
    """One request: a JSON body, the query of a GET, or the File-Path; lone surrogates stand for bytes."""
    method, _, route = name.partition(" ")
    if isinstance(request, str):
        headers = {"file-path": quote(request.encode("utf-8", "surrogateescape"))}
        if method == "POST":
            return client.http.post(route, headers=headers | {"x-file-size": "3"})
        files = {"file": ("f", content)} if route.endswith("/form") else None
        return client.http.put(route, headers=headers, content=None if files else content, files=files)
    if method == "GET":
        query = "&".join(
            f"{key}={quote(str(text).encode('utf-8', 'surrogateescape'))}" for key, text in request.items()
        )
        return client.http.get(f"{route}?{query}")
    body = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogateescape")
    return client.http.post(route, content=body)


def check_answer(answer: httpx.Response) -> dict[str, Any]:
    """The envelope; whatever was sent, it is one that was foreseen."""
    envelope = Client.envelope(answer)
    assert "internal error" not in envelope["message"], envelope
    assert "Traceback" not in envelope["message"], envelope
    return envelope


Scan = dict[str, tuple[int, int, str]]


def scan(folder: Path, without: Path | None = None) -> Scan:
    """Everything on the disk at and below a folder, links not followed: path → kind and size, time, bytes."""
    files: Scan = {}
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        if place == without or place.name == TRASH_NAME:  # what a user may remove goes there
            continue
        facts = place.lstat()
        text = ""
        if place.is_symlink():
            text = os.readlink(place)
        elif place.is_dir():
            entries = sorted(place.iterdir())
            waiting += entries
            text = "\n".join(["folder", *(path.name for path in entries if path.name != TRASH_NAME)])
        elif facts.st_size <= SMALL:
            text = sha256(place.read_bytes()).hexdigest()
        files[str(place)] = (facts.st_mode, 0 if place.is_dir() else facts.st_size, text or str(facts.st_mtime_ns))
    return files


@dataclass
class Scene:
    """A user who has all rights in /files/<id>/team/a, and neighbours whose entries contain `secret`."""

    service: Service
    admin: Client
    id: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self.secret = f"canary-{uuid4().hex}"
        self.root = f"/files/{self.id}"
        self.base = f"{self.root}/team/a"
        self.files = self.service.data / "files"
        self.disk = self.files / self.id / "team" / "a"
        self.buried = self.service.data / f"{self.id}.txt"
        self.buried.write_text(self.secret)
        for name in NEIGHBOURS:
            neighbour = self.disk.parent / name
            neighbour.mkdir(parents=True)
            (neighbour / "notes.txt").write_text(self.secret)
            (neighbour / f"{self.secret}.txt").write_text(self.secret)
        (self.disk.parent / f"{self.secret}.txt").write_text(self.secret)
        # the first file that must replace none has the storage try out in its root folder what the disk can refuse
        put = self.admin.put(f"{self.base}/new", b"", overwrite="false")
        assert put["code"] == 200, put
        self.reset()
        self.user = self.make_user("user", self.base)

    def make_user(self, name: str, base: str, permission: int = EVERYTHING) -> Client:
        """Another user of this scene, signed in."""
        username = f"{self.id}-{name}"
        self.admin.ok(
            "/api/admin/user/create", username=username, password=PASSWORD, base_path=base, permission=int(permission)
        )
        return self.service.client(username, PASSWORD)

    def find_id(self, name: str) -> int:
        users = self.admin.get("/api/admin/user/list")["data"]["content"]
        return next(user["id"] for user in users if user["username"] == f"{self.id}-{name}")

    def reset(self, packed: bool = False) -> None:
        """The user's own folder as it was at the beginning, and nothing of it remembered by the service.

        `packed`: with an archive of its files in it.
        """
        self.disk.mkdir(exist_ok=True)
        names = {"sub", "empty"}
        for place in self.disk.iterdir():
            names |= {place.name} if place.name.isidentifier() else set()
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        self.admin.ok("/api/fs/remove", dir=self.base, names=sorted(names))
        (self.disk / "empty").mkdir()
        (self.disk / "sub").mkdir()
        for name in OWN_FILES:
            (self.disk / name).write_text(f"mine: {name}")
        if packed:
            with ZipFile(self.disk / "x.zip", "w") as archive:
                for name in OWN_FILES:
                    archive.writestr(ZipInfo(name), f"packed: {name}")

    def settle(self) -> None:
        """Wait until no task of the user, or on their files, is under way."""
        end = time.monotonic() + TASK_SECONDS
        for kind in reversed(KINDS):  # the transfer of the result of a task begins before that task ends
            while self.id in self.admin.http.get(f"/api/task/{kind}/undone").text:
                assert time.monotonic() < end, kind
                time.sleep(0.01)

    def scan_outside(self) -> Scan:
        """All that the user must neither change nor see."""
        files = scan(self.files, without=self.disk) | scan(self.buried)
        if PROCESSES > 1:
            del files[str(self.files)]  # at the top of a storage each process tries out once what its disk can do
        return files

    def scan_own(self) -> Scan:
        return scan(self.disk)

    def list_texts(self) -> list[str]:
        """Return the texts that are sent in place of a path or a name."""
        tails = ("", "ab", "ab/notes.txt")
        hidden = [f"{self.root}/team/ab", f"{self.root}/team/ab/notes.txt", f"../../../../{self.buried.name}"]
        return [up + tail for up in PARENT_PATHS for tail in tails] + [*BARE, *hidden]

    def check_unseen(self, text: str, answer: httpx.Response) -> None:
        """Check that the answer reveals nothing of the neighbours except the text of the request itself."""
        shown = answer.text.replace(json.dumps(text)[1:-1], "").replace(text, "") if text else answer.text
        assert self.secret not in shown, (text, shown[:500])
        assert f"{self.root}/team/ab" not in shown, (text, shown[:500])

    def close(self) -> None:
        shutil.rmtree(self.files / self.id)
        self.buried.unlink()
        for user in self.admin.get("/api/admin/user/list")["data"]["content"]:
            if user["username"].startswith(self.id):
                self.admin.ok("/api/admin/user/delete", params={"id": user["id"]})


@contextmanager
def mount(admin: Client, path: str, driver: str = "Local", /, **addition: Any) -> Iterator[int]:
    """A storage for as long as the context lasts; its id."""
    id = admin.ok("/api/admin/storage/create", mount_path=path, driver=driver, addition=json.dumps(addition))["id"]
    try:
        yield id
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": id})


@contextmanager
def add_rule(admin: Client, path: str, /, **rule: Any) -> Iterator[None]:
    """A meta for as long as the context lasts."""
    admin.ok("/api/admin/meta/create", path=path, **rule)
    try:
        yield
    finally:
        metas = admin.get("/api/admin/meta/list")["data"]["content"]
        id = next(meta["id"] for meta in metas if meta["path"] == path)
        admin.ok("/api/admin/meta/delete", params={"id": id})
