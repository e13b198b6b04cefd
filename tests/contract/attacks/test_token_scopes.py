"""Tokens outside their scope, at every route of the service and by WebDAV."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mangrove.identity.rights import CHANGES, Right
from mangrove.tasks.core.registry import KINDS
from tests.contract.api.accounts import NOT_ADMIN
from tests.contract.attacks.scene import (
    PASSWORD,
    Scene,
    check_answer,
    operations,
    replace_text,
    send,
)
from tests.contract.request_fields import FILES
from tests.support.service import Client, Service

OF_TRASH = {f"POST /api/fs/trash/{verb}" for verb in ("delete", "empty", "restore")}  # each entry is refused by itself
NEEDS_SESSION = (403, "this request needs a session: a token cannot make it")
OUTSIDE_PATHS = ("../b", "/../b/notes.txt", "..\\b", "sub/../../b", "%2e%2e/b")
GATED = [name for name, operation in operations().items() if operation["x-gate"] != "anyone"]
ACCOUNT = [
    name
    for name in GATED
    if name.split(" ")[1].startswith(("/api/me/", "/api/auth/", "/api/authn/"))
    and operations()[name]["x-gate"] == "visitor"
]
WRITE_ROUTES = [
    name
    for name in FILES
    if Right[operations()[name]["x-gate"].partition(":")[2].upper() or "READ"] & CHANGES
]  # fmt: skip


@pytest.fixture(scope="module")
def scene(service: Service, admin: Client) -> Iterator[Scene]:
    scene = Scene(service, admin)
    yield scene
    scene.close()


def make_token(owner: Client, service: Service, **scope: Any) -> Client:
    """Return a client with a new token of an owner, by default for the API."""
    fields = {"title": f"{time.monotonic_ns()}", "protocols": ["api"]} | scope
    return Client(service.address, f"Bearer {owner.ok('/api/me/token/create', **fields)['token']}")


def make_token_that_ends(owner: Client, service: Service) -> tuple[Client, datetime]:
    """Return a client whose token was used and soon ends, and when. A slow computer gets more time."""
    for lifetime in (3, 10, 60):
        expires = datetime.now(UTC) + timedelta(seconds=lifetime)
        fields = {"title": f"for {lifetime}", "protocols": ["api"], "expires": expires.isoformat()}
        made = owner.post("/api/me/token/create", **fields)
        if made["code"] == 200:
            client = Client(service.address, f"Bearer {made['data']['token']}")
            used = client.get("/api/me")
            if datetime.now(UTC) < expires:
                assert used["code"] == 200, used
                return client, expires
    raise AssertionError("every token ended before it was used")


def call(client: Client, name: str) -> tuple[int, str]:
    """Return the answer to a body that no route could read: the gate must refuse before the body is read."""
    method, _, route = name.partition(" ")
    answer = client.envelope(client.http.request(method, route, content=b"{", params={"id": "1", "uid": "1"}))
    return answer["code"], answer["message"]


def test_token_for_another_protocol_is_refused_at_every_route(scene: Scene) -> None:
    client = make_token(scene.user, scene.service, protocols=["webdav", "sftp", "mcp"])
    answers = {name: call(client, name) for name in GATED}
    assert answers == dict.fromkeys(GATED, (403, "this token is not for api"))
    assert len(GATED) > 100


def test_token_that_ended_or_was_removed_is_refused_at_every_route(scene: Scene) -> None:
    removed = make_token(scene.user, scene.service)
    id = max(row["id"] for row in scene.user.get("/api/me/token/list")["data"]["content"])
    client, expires = make_token_that_ends(scene.user, scene.service)
    assert removed.get("/api/me")["code"] == 200
    scene.user.ok("/api/me/token/delete", params={"id": id})
    assert {name: call(removed, name) for name in GATED} == dict.fromkeys(GATED, (401, "token is invalidated"))
    while datetime.now(UTC) < expires:
        time.sleep(0.05)
    assert {name: call(client, name) for name in GATED} == dict.fromkeys(GATED, (401, "token is expired"))


def test_token_changes_no_account_and_calls_no_route_of_administrators(scene: Scene, admin: Client) -> None:
    client = make_token(admin, scene.service)
    admin_routes = [name for name in GATED if operations()[name]["x-gate"] == "admin"]
    assert {name: call(client, name) for name in admin_routes} == dict.fromkeys(admin_routes, NOT_ADMIN)
    assert {name: call(client, name) for name in ACCOUNT} == dict.fromkeys(ACCOUNT, NEEDS_SESSION)
    assert len(admin_routes) > 40 and len(ACCOUNT) > 10
    refused = admin.post("/api/me/token/create", title="root", protocols=["api"], administration=True)
    assert refused["code"] == 400 and "second factor" in refused["message"]


@pytest.fixture(scope="module")
def reader(scene: Scene) -> Client:
    return make_token(scene.user, scene.service, mode="read")


@pytest.fixture(scope="module")
def writer(scene: Scene) -> Client:
    return make_token(scene.user, scene.service, mode="write")


@pytest.mark.parametrize("name", WRITE_ROUTES)
def test_token_for_reading_changes_nothing(scene: Scene, reader: Client, name: str) -> None:
    scene.reset("/archive/" in name)
    before = scene.scan_own()
    client = reader
    answer = check_answer(send(client, name, FILES[name][1]))
    assert answer["code"] == 403 or name in OF_TRASH, answer
    assert scene.scan_own() == before


@pytest.mark.parametrize("name", [name for name in FILES if name not in WRITE_ROUTES])
def test_token_for_writing_reads_nothing(scene: Scene, writer: Client, name: str) -> None:
    scene.reset("/archive/" in name)
    client = writer
    answer = send(client, name, FILES[name][1])
    assert check_answer(answer)["code"] != 200, answer.text
    assert "mine:" not in answer.text


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (texts, _) in FILES.items() for text in sorted(texts)]
)
def test_token_does_not_leave_its_folder(scene: Scene, confined: Client, name: str, text: str) -> None:
    client = confined
    packed = "/archive/" in name
    scene.reset(packed)
    before, good = scene.scan_outside(), FILES[name][1]
    for attack in OUTSIDE_PATHS:
        answer = send(client, name, attack if isinstance(good, str) else replace_text(good, text, attack))
        envelope = check_answer(answer)
        scene.check_unseen(attack, answer)
        if envelope["code"] == 200:
            for kind in KINDS:
                while client.get(f"/api/task/{kind}/undone")["data"]:
                    time.sleep(0.01)
            scene.reset(packed)
    assert scene.scan_outside() == before


@pytest.fixture(scope="module")
def confined(scene: Scene) -> Client:
    """A token for a folder of a user whose base path also holds the neighbours."""
    return make_token(scene.make_user("owner", f"{scene.root}/team"), scene.service, folder="/a")


def test_root_of_a_token_is_its_folder(scene: Scene, confined: Client) -> None:
    scene.reset()
    client = confined
    assert {row["name"] for row in client.ok("/api/fs/list", path="/")["content"]} == {"empty", "f.txt", "g.txt", "sub"}
    assert client.get("/api/me")["data"]["base_path"] == f"{scene.root}/team/a"
    assert client.ok("/api/fs/mkdir", path="/made") is None and (scene.disk / "made").is_dir()


def test_token_lists_and_ends_only_its_own_tasks(scene: Scene) -> None:
    scene.reset()
    client, other = (make_token(scene.user, scene.service, title=title) for title in ("first", "second"))
    request = {"path": "/", "urls": ["http://127.0.0.1:9/x"], "tool": "SimpleHttp"}
    (task,) = client.ok("/api/fs/add_offline_download", **request)["tasks"]
    scene.settle()
    route = "/api/task/offline_download"
    assert [row["id"] for row in client.get(f"{route}/done")["data"]] == [task["id"]]
    assert other.get(f"{route}/done")["data"] == []
    assert other.post(f"{route}/delete", params={"tid": task["id"]})["code"] == 404
    assert task["id"] in json.dumps(scene.user.get(f"{route}/done"))


@pytest.mark.parametrize("removed", [False, True])
def test_token_by_webdav_keeps_to_its_scope(scene: Scene, removed: bool) -> None:
    scene.reset()
    scene.make_user(f"dav{removed}", f"{scene.root}/team", 0xFFF)
    owner = scene.service.client(f"{scene.id}-dav{removed}", PASSWORD)
    made = owner.ok("/api/me/token/create", title="dav", protocols=["webdav"], mode="read", folder="/a")
    http = Client(scene.service.address, f"Bearer {made['token']}").http
    assert http.get("/dav/f.txt").text == "mine: f.txt"
    assert http.put("/dav/new.txt", content=b"x").status_code == 403
    assert http.get("/dav/../b/notes.txt").status_code in (400, 403, 404)
    assert http.get("/dav/%2e%2e/b/notes.txt").status_code in (400, 403, 404)
    if removed:
        owner.ok("/api/me/token/delete", params={"id": made["id"]})
        assert http.get("/dav/f.txt").status_code == 401
