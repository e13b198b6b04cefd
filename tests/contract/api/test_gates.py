"""The gate and right of every route, taken from the service itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import (
    GUEST_DISABLED,
    NOT_ADMIN,
    Caller,
    People,
    get_data,
    get_refusal,
    guest,
    stranger,
)
from tests.contract.api.upload_client import send_batch
from tests.support.service import Client, Service

DENIED = (403, "permission denied")


# Who may enter
def operations(client: Client) -> list[tuple[str, str, str]]:
    """Method, path and gate of every route of the service."""
    paths = client.http.get("/openapi.json").json()["paths"]
    return [
        (method, path, operation["x-gate"]) for path, methods in paths.items() for method, operation in methods.items()
    ]


def call(client: Client, method: str, path: str) -> tuple[int, str]:
    """Return the answer to a body that no route could read: the gate must refuse before the body is read."""
    answer = client.envelope(client.http.request(method, path, content=b"{", params={"id": "1", "uid": "1"}))
    return answer["code"], answer["message"]


def test_everything_below_admin_is_for_administrators_and_says_so(service: Service) -> None:
    routes = operations(service.anonymous())
    below = [(path, gate) for _, path, gate in routes if path.startswith("/api/admin/")]
    assert len(below) >= 30
    assert [path for path, gate in below if gate != "admin"] == []
    assert {path for _, path, gate in routes if gate == "admin"} - {path for path, _ in below} == {"/api/fs/link"}


SIGN_INS = {
    "/api/auth/get_sso_id", "/api/auth/sso", "/api/auth/sso_callback", "/api/auth/sso_get_token",
    "/api/authn/webauthn_begin_login", "/api/authn/webauthn_finish_login",
}  # fmt: skip


def test_only_what_anybody_may_see_is_open_to_anybody(service: Service) -> None:
    anyone = {path for _, path, gate in operations(service.anonymous()) if gate == "anyone"}
    open_api = {path for path in anyone if path.startswith("/api/")}
    assert {path for path in open_api if not path.startswith(("/api/public/", "/api/auth/login"))} == SIGN_INS
    assert {"/ping", "/api/public/settings", "/api/auth/login"} <= anyone


def test_every_admin_route_refuses_a_normal_user_with_all_rights(service: Service, accounts: People) -> None:
    client = accounts.new(permission=0xFFFF).client
    got = {(method, path): call(client, method, path) for method, path, gate in operations(client) if gate == "admin"}
    assert {where: answer for where, answer in got.items() if answer != NOT_ADMIN} == {}
    assert len(got) >= 31


def test_every_admin_route_refuses_the_guest_with_all_rights(service: Service, admin: Client) -> None:
    doors = [(method, path) for method, path, gate in operations(admin) if gate == "admin"]
    with guest(admin, permission=0xFFFF) as visitor:
        got = {door: call(visitor, *door) for door in doors}
    assert {where: answer for where, answer in got.items() if answer != NOT_ADMIN} == {}


def test_every_admin_route_refuses_who_has_no_token_or_a_bad_one(service: Service, admin: Client) -> None:
    doors = [(method, path) for method, path, gate in operations(admin) if gate == "admin"]
    nobody, forger = stranger(service), Caller(service.address, admin.token[:-4] + "AAAA")
    assert {door: call(nobody, *door) for door in doors} == dict.fromkeys(doors, GUEST_DISABLED)
    assert {door: call(forger, *door) for door in doors} == dict.fromkeys(doors, (401, "token is invalidated"))


def test_the_existing_clients_prefix_opens_no_other_door(service: Service, accounts: People) -> None:
    client = accounts.new(permission=0xFFFF).client
    doors = [(method, f"/openlist{path}") for method, path, gate in operations(client) if gate == "admin"]
    assert {door: call(client, *door) for door in doors} == dict.fromkeys(doors, NOT_ADMIN)


@pytest.mark.parametrize("spelling", ["//api/admin/user/list", "/API/admin/user/list", "/api/admin/user/list/"])
def test_another_spelling_of_an_admin_route_is_no_way_in(service: Service, accounts: People, spelling: str) -> None:
    answer = accounts.new(permission=0xFFFF).client.http.get(f"{service.address}{spelling}")
    assert '"username"' not in answer.text
    assert answer.status_code == 404 or answer.json()["code"] in (403, 404)


def bodies(folder: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """For each route that spends a right: the right's bit and a body that would succeed with it."""
    pair = {"src_dir": folder, "dst_dir": f"{folder}/to"}
    return {
        "/api/fs/mkdir": (fixtures.WRITE, {"path": f"{folder}/new"}),
        "/api/fs/put": (fixtures.WRITE, {}),
        "/api/fs/form": (fixtures.WRITE, {}),
        "/api/fs/put_batch": (fixtures.WRITE, {}),
        "/api/fs/multipart/init": (fixtures.WRITE, {}),
        "/api/fs/rename": (fixtures.RENAME, {"path": f"{folder}/a", "name": "b"}),
        "/api/fs/batch_rename": (
            fixtures.RENAME,
            {"src_dir": folder, "rename_objects": [{"src_name": "a", "new_name": "b"}]},
        ),
        "/api/fs/regex_rename": (
            fixtures.RENAME,
            {"src_dir": folder, "src_name_regex": "^a$", "new_name_regex": "b"},
        ),
        "/api/fs/move": (fixtures.MOVE, pair | {"names": ["a"]}),
        "/api/fs/recursive_move": (fixtures.MOVE, pair | {"conflict_policy": "cancel"}),
        "/api/fs/copy": (fixtures.COPY, pair | {"names": ["a"]}),
        "/api/fs/remove": (fixtures.DELETE, {"dir": folder, "names": ["a"]}),
        "/api/fs/remove_empty_directory": (fixtures.DELETE, {"src_dir": folder}),
        "/api/fs/archive/meta": (fixtures.READ_ARCHIVES, {"path": f"{folder}/to/x.zip"}),
        "/api/fs/archive/list": (fixtures.READ_ARCHIVES, {"path": f"{folder}/to/x.zip"}),
        "/api/fs/archive/decompress": (
            fixtures.DECOMPRESS,
            {"src_dir": f"{folder}/to", "dst_dir": f"{folder}/to", "name": ["x.zip"]},
        ),
        "/api/fs/archive/compress": (
            fixtures.WRITE,
            {"src_dir": folder, "names": ["a"], "dst_dir": f"{folder}/to", "name": "a.zip"},
        ),
        "/api/fs/add_offline_download": (
            fixtures.OFFLINE_DOWNLOAD,
            {"path": f"{folder}/to", "urls": ["http://127.0.0.1:9/x"], "tool": "SimpleHttp"},
        ),
    }


# They need more than the right; `test_multipart.py`, `test_trash.py` and `test_versions.py` test them.
ROUTES_OF_OTHER_TESTS = {
    "/api/fs/get_direct_upload_info",
    *(f"/api/fs/trash/{verb}" for verb in ("restore", "delete", "empty")),
    "/api/fs/versions/restore",
    *(f"/api/fs/multipart/{verb}" for verb in ("chunk", "sign", "complete", "status", "abort")),
}


def try_route(client: Client, path: str, body: dict[str, Any], folder: str) -> tuple[int, str]:
    if path in ("/api/fs/put", "/api/fs/form"):
        files: Any = {"files": {"file": ("x", b"x")}} if path.endswith("form") else {"content": b"x"}
        answer = client.envelope(client.http.put(path, headers={"file-path": f"{folder}/new"}, **files))
    elif path == "/api/fs/put_batch":
        (answer,) = send_batch(client, {f"{folder}/new": b"x"})["data"]["files"]
    elif path == "/api/fs/multipart/init":
        headers = {"file-path": f"{folder}/parts", "x-file-size": "1"}
        answer = client.envelope(client.http.post(path, headers=headers))
    else:
        answer = client.post(path, **body)
    return answer["code"], answer["message"]


def test_each_changing_route_needs_exactly_its_own_right(admin: Client, accounts: People, folder: str) -> None:
    table = bodies(folder)
    gated = {path for _, path, gate in operations(admin) if ":" in gate and path.startswith("/api/fs/")}
    assert gated - ROUTES_OF_OTHER_TESTS == set(table), "a route that spends a right must be in this test"
    clients: dict[int, tuple[Client, Client]] = {}
    for bit in {bit for bit, _ in table.values()}:
        clients[bit] = accounts.new(permission=0xFFFF & ~bit).client, accounts.new(permission=bit).client
    wrong = {}
    for path, (bit, body) in table.items():
        admin.ok("/api/fs/remove", dir=folder, names=["a", "b", "to", "new", "empty"])
        admin.ok("/api/fs/mkdir", path=f"{folder}/to")
        admin.ok("/api/fs/mkdir", path=f"{folder}/empty")
        get_data(admin.put(f"{folder}/a", b"content"))
        get_data(admin.put(f"{folder}/to/x.zip", b"PK\5\6" + bytes(18)))
        without, only = clients[bit]
        refused = try_route(without, path, body, folder)
        names = admin.names(folder)
        allowed = try_route(only, path, body, folder)
        if refused != DENIED or allowed[0] != 200 or names != ["a", "empty", "to"]:
            wrong[path] = (refused, allowed, names)
    assert wrong == {}


def test_only_the_administrator_may_list_folders_from_the_root(admin: Client, accounts: People, folder: str) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/home")
    client = accounts.new(permission=0xFFFF, base_path=f"{folder}/home").client
    assert get_refusal(client.post("/api/fs/dirs", path=folder, force_root=True)) == (403, "Permission denied")
    assert get_refusal(client.get("/api/fs/dirs", path=folder, force_root="true")) == (403, "Permission denied")
    assert [row["name"] for row in get_data(admin.post("/api/fs/dirs", path=folder, force_root=True))] == ["home"]
