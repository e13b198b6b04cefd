"""Requests by WebDAV that need all rights of its function."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tests.contract.scenarios import Person

LOCK = (
    '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope>'
    "<D:locktype><D:write/></D:locktype></D:lockinfo>"
)


PATCH = '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">1</x></D:prop></D:set></D:propertyupdate>'


def webdav(admin: Person) -> None:
    """All that WebDAV does, as if every verb passed: also a wrong password, what a function cannot carry, and a copy
    that takes a task."""
    user = {"username": "dav", "password": "a long password", "base_path": "/", "role": 0, "permission": 0x3FF}
    admin.gets("users/create", **user)
    person, there = Person(admin.cloud), "https://mangrove.example.com/dav"

    def ask(method: str, path: str, body: str = "", password: str = "a long password", **headers: str) -> Any:
        basic = base64.b64encode(f"dav:{password}".encode()).decode()
        sent = {"authorization": f"Basic {basic}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        return person.raw(
            "dav/entry", {"http": {"method": method, "path": f"/dav{path}"}, "headers": sent, "body": body}
        )

    def send(method: str, path: str, body: str = "", **headers: str) -> int:
        status: int = ask(method, path, body, **headers)["statusCode"]
        return status

    assert send("GET", "/", password="wrong") == 401
    own = person.sign_in("dav", "a long password").gets("auth/app_password_add", title="phone")["password"]
    assert send("HEAD", "/", password=own) == 200
    assert [send("MKCOL", "/files/d"), send("PUT", "/files/d/a", "a")] == [201, 201]
    token = ask("LOCK", "/files/d/a", LOCK)["headers"]["lock-token"]
    assert [send("PUT", "/files/d/a", "b"), send("PROPPATCH", "/files/d", PATCH)] == [423, 207]
    assert send("PROPFIND", "/files/d", depth="1") == 207
    assert [send("COPY", "/files/d", destination=f"{there}/files/e"), send("DELETE", "/files/d")] == [201, 423]
    assert [send("MOVE", "/files/e", destination=f"{there}/files/f"), send("DELETE", "/files/f")] == [201, 204]
    assert send("UNLOCK", "/files/d/a", lock_token=token) == 204
    for name in ("a", "c"):
        send("LOCK", f"/files/d/{name}", LOCK)
    for row in admin.gets("metas/lock_list")["content"]:
        admin.gets("metas/lock_delete", urlencode({"token": row["token"]}))
    large = PATCH.replace("<D:prop>", f"<D:prop><large>{'v' * 60_000}</large>")
    for number in range(70):  # more properties than are read together
        assert [send("PUT", f"/files/d/{number}"), send("PROPPATCH", f"/files/d/{number}", large)] == [201, 207]
    propfind = '<D:propfind xmlns:D="DAV:"><D:prop><x xmlns="urn:x"/></D:prop></D:propfind>'
    assert send("PROPFIND", "/files/d", propfind, depth="1") == 207
    carry_elsewhere(admin, send, there)
    assert send("DELETE", "/files/d") == 204


def carry_elsewhere(admin: Person, send: Callable[..., int], there: str) -> None:
    """Between storages, into one that keeps a list of addresses, and of what is too large for an answer."""
    number = admin.gets("storages/create", mount_path="/near", driver="Alias", addition='{"paths": "n:/files/d"}')["id"]
    assert send("COPY", "/near/a", destination=f"{there}/files/d/b", prefer="respond-async") == 202
    admin.cloud.run_executions()
    assert send("GET", "/files/d/b") == 200
    admin.gets("storages/delete", f"id={number}")
    addition = json.dumps({"url_structure": "f:https://example.com/f", "writable": True})
    number = admin.gets("storages/create", mount_path="/listed", driver="UrlTree", addition=addition)["id"]
    assert send("DELETE", "/listed/f") == 204
    admin.gets("storages/delete", f"id={number}")
    store = admin.cloud.client("s3")
    store.put_object(Bucket=admin.cloud.refs["Files"], Key="d/large.txt", Body=bytes(range(256)) * 20_000)
    assert [send("GET", "/files/d/large.txt") for _ in range(2)] == [302, 302]
