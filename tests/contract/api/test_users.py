"""Administration of users, and who may enter which route: every gate and every right, taken from the service itself."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import (
    GUEST_DISABLED,
    NOT_ADMIN,
    Caller,
    People,
    find_id,
    get_data,
    get_refusal,
    guest,
    make_static_hash,
    stranger,
)
from tests.service import Client, Service

TAKEN = (500, "constraint failed: UNIQUE constraint failed: x_users.username (2067)")
UNKNOWN = (500, "failed get old user: record not found")
NO_NAME = (400, "Key: 'User.Username' Error:Field validation for 'Username' failed on the 'required' tag")
FIELDS = {"id", "username", "password", "base_path", "role", "disabled", "permission", "sso_id", "allow_ldap"}
DENIED = (403, "permission denied")


@pytest.fixture
def accounts(service: Service, admin: Client) -> Iterator[People]:
    accounts = People(service, admin)
    yield accounts
    accounts.close()


def list_users(admin: Client, **query: Any) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = get_data(admin.get("/api/admin/user/list", **query))["content"]
    return content


# Who may enter


def operations(client: Client) -> list[tuple[str, str, str]]:
    """Method, path and gate of every route of the service."""
    paths = client.http.get("/openapi.json").json()["paths"]
    return [(method, path, one["x-gate"]) for path, methods in paths.items() for method, one in methods.items()]


def call(client: Client, method: str, path: str) -> tuple[int, str]:
    """The answer to a body that no route could read: the gate must refuse before it is looked at."""
    answer = client.envelope(client.http.request(method, path, content=b"{", params={"id": "1", "uid": "1"}))
    return answer["code"], answer["message"]


def test_everything_below_admin_is_for_administrators_and_says_so(service: Service) -> None:
    found = operations(service.nobody())
    below = [(path, gate) for _, path, gate in found if path.startswith("/api/admin/")]
    assert len(below) >= 30
    assert [path for path, gate in below if gate != "admin"] == []
    assert {path for _, path, gate in found if gate == "admin"} - {path for path, _ in below} == {"/api/fs/link"}


def test_only_what_anybody_may_see_is_open_to_anybody(service: Service) -> None:
    anyone = {path for _, path, gate in operations(service.nobody()) if gate == "anyone"}
    open_api = {path for path in anyone if path.startswith("/api/")}
    assert {path for path in open_api if not path.startswith(("/api/public/", "/api/auth/login"))} == set()
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
        "/api/fs/add_offline_download": (
            fixtures.OFFLINE_DOWNLOAD,
            {"path": f"{folder}/to", "urls": ["http://127.0.0.1:9/x"], "tool": "SimpleHttp"},
        ),
    }


def try_route(client: Client, path: str, body: dict[str, Any], folder: str) -> tuple[int, str]:
    if path in ("/api/fs/put", "/api/fs/form"):
        files: Any = {"files": {"file": ("x", b"x")}} if path.endswith("form") else {"content": b"x"}
        answer = client.envelope(client.http.put(path, headers={"file-path": f"{folder}/new"}, **files))
    else:
        answer = client.post(path, **body)
    return answer["code"], answer["message"]


def test_each_changing_route_needs_exactly_its_own_right(admin: Client, accounts: People, folder: str) -> None:
    table = bodies(folder)
    gated = {path for _, path, gate in operations(admin) if ":" in gate and path.startswith("/api/fs/")}
    assert gated == set(table), "a route that spends a right must be in this test"
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


# Records


def test_a_user_is_created_listed_and_shown_without_a_password(admin: Client, accounts: People) -> None:
    person = accounts.new(permission=9, base_path="team\\a//b/", sso_id="sso", allow_ldap=False, disabled=False)
    row = person.row(admin)
    assert set(row) == FIELDS
    assert row == {
        "id": person.id,
        "username": person.name,
        "password": "",
        "base_path": "/team/a/b",
        "role": 0,
        "disabled": False,
        "permission": 9,
        "sso_id": "sso",
        "allow_ldap": False,
    }
    assert next(one for one in list_users(admin) if one["id"] == person.id) == row
    for text in (admin.http.get("/api/admin/user/list").text, person.client.http.get("/api/me").text):
        assert person.password not in text and make_static_hash(person.password) not in text and "argon2" not in text


def test_fields_left_out_get_their_defaults(admin: Client, accounts: People) -> None:
    name = uuid4().hex
    assert get_data(admin.post("/api/admin/user/create", username=name)) is None
    id = find_id(admin, name)
    accounts.ids.append(id)
    row = get_data(admin.get("/api/admin/user/get", id=id))
    assert (row["base_path"], row["role"], row["permission"], row["disabled"], row["allow_ldap"]) == (
        "/",
        0,
        0,
        False,
        True,
    )


def test_the_first_users_are_the_administrator_and_the_guest(admin: Client) -> None:
    first, second = list_users(admin)[:2]
    assert (first["id"], first["username"], first["role"], first["permission"]) == (1, "admin", 2, 0x71FF)
    assert (second["username"], second["role"], second["disabled"], second["permission"]) == ("guest", 1, True, 0)


def test_the_list_is_ordered_by_id_and_cut_into_pages(admin: Client, accounts: People) -> None:
    ids = [accounts.new().id for _ in range(3)]
    everything = [row["id"] for row in list_users(admin)]
    assert everything == sorted(everything) and everything[-3:] == ids
    data = get_data(admin.get("/api/admin/user/list", page=2, per_page=2))
    assert [row["id"] for row in data["content"]] == everything[2:4]
    assert data["total"] == len(everything)
    assert get_data(admin.get("/api/admin/user/list", page=999, per_page=5))["content"] == []
    assert [row["id"] for row in list_users(admin, page=0, per_page=0)] == everything
    for query in ({"page": "x"}, {"page": "1", "per_page": "1.5"}):
        code, message = get_refusal(admin.get("/api/admin/user/list", **query))
        assert code == 400 and message.startswith("strconv.ParseInt: parsing ")


def test_a_user_name_is_required_and_unique(admin: Client, accounts: People) -> None:
    person, other = accounts.new(), accounts.new()
    assert get_refusal(admin.post("/api/admin/user/create", password="x")) == NO_NAME
    assert get_refusal(admin.post("/api/admin/user/create", username="")) == NO_NAME
    assert get_refusal(admin.post("/api/admin/user/create", username=person.name)) == TAKEN
    assert get_refusal(admin.post("/api/admin/user/create", username="admin")) == TAKEN
    row = person.row(admin)
    assert get_refusal(admin.post("/api/admin/user/update", **(row | {"username": ""}))) == NO_NAME
    assert get_refusal(admin.post("/api/admin/user/update", **(row | {"username": other.name}))) == TAKEN
    assert person.row(admin) == row
    assert get_data(other.client.get("/api/me"))["username"] == other.name


def test_of_two_users_created_with_one_name_at_the_same_time_one_is_made(admin: Client, accounts: People) -> None:
    name = uuid4().hex
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: admin.post("/api/admin/user/create", username=name), range(4)))
    accounts.ids.append(find_id(admin, name))
    assert sorted(answer["code"] for answer in answers) == [200, 500, 500, 500]
    assert len([row for row in list_users(admin) if row["username"] == name]) == 1


@pytest.mark.parametrize("role", [1, 2])
def test_no_second_administrator_or_guest_can_be_made(admin: Client, accounts: People, role: int) -> None:
    name = uuid4().hex
    refused = get_refusal(admin.post("/api/admin/user/create", username=name, role=role))
    assert refused == (400, "admin or guest user can not be created")
    assert name not in {row["username"] for row in list_users(admin)}


def test_a_role_cannot_be_changed(admin: Client, accounts: People) -> None:
    person = accounts.new()
    row = person.row(admin)
    for role in (1, 2, 3, -1):
        refused = get_refusal(admin.post("/api/admin/user/update", **(row | {"role": role})))
        assert refused == (400, "role can not be changed")
    for one in list_users(admin)[:2]:
        refused = get_refusal(admin.post("/api/admin/user/update", **(one | {"role": 0})))
        assert refused == (400, "role can not be changed")
    assert person.row(admin) == row


def test_a_role_that_does_not_exist_is_no_administrator(service: Service, admin: Client, accounts: People) -> None:
    for role in (-1, 3, 2**40):
        name = uuid4().hex
        if admin.post("/api/admin/user/create", username=name, password="x", role=role)["code"] == 200:
            accounts.ids.append(find_id(admin, name))
            token = get_data(stranger(service).post("/api/auth/login", username=name, password="x"))["token"]
            assert get_refusal(Caller(service.address, token).get("/api/admin/user/list")) == NOT_ADMIN


def test_the_administrator_cannot_be_disabled_and_neither_he_nor_the_guest_deleted(admin: Client) -> None:
    boss, visitor = list_users(admin)[:2]
    refused = get_refusal(admin.post("/api/admin/user/update", **(boss | {"disabled": True})))
    assert refused == (400, "admin user can not be disabled")
    for one in (boss, visitor):
        refused = get_refusal(admin.post("/api/admin/user/delete", params={"id": one["id"]}))
        assert refused == (500, "cannot delete admin or guest")
    assert list_users(admin)[:2] == [boss, visitor]


def test_an_update_replaces_every_field(admin: Client, accounts: People) -> None:
    person = accounts.new(permission=9, base_path="/a", sso_id="sso", allow_ldap=False)
    name = uuid4().hex
    assert get_data(admin.post("/api/admin/user/update", id=person.id, username=name)) is None
    assert person.row(admin) == {
        "id": person.id,
        "username": name,
        "password": "",
        "base_path": "/",
        "role": 0,
        "disabled": False,
        "permission": 0,
        "sso_id": "",
        "allow_ldap": True,
    }


def test_a_freed_name_can_be_taken_again(admin: Client, accounts: People) -> None:
    person = accounts.new()
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"username": uuid4().hex})))
    again = accounts.new(username=person.name)
    assert again.id > person.id
    get_data(admin.post("/api/admin/user/delete", params={"id": again.id}))
    assert accounts.new(username=person.name).id > again.id


def test_what_names_no_user_is_not_found(admin: Client) -> None:
    assert get_refusal(admin.get("/api/admin/user/get", id=10**9)) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/user/delete", params={"id": 10**9})) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/user/update", id=10**9, username="x")) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/user/update", username="x")) == UNKNOWN
    assert get_refusal(admin.get("/api/admin/user/get", id=0)) == UNKNOWN
    assert get_refusal(admin.get("/api/admin/user/get", id=-1)) == UNKNOWN


@pytest.mark.parametrize("id", [None, "", "x", "1.5", "1 or 1=1"])
def test_an_id_that_is_no_number_is_a_400(admin: Client, id: str | None) -> None:
    query = {} if id is None else {"id": id}
    expected = (400, f'strconv.Atoi: parsing "{id or ""}": invalid syntax')
    assert get_refusal(admin.get("/api/admin/user/get", **query)) == expected
    assert get_refusal(admin.post("/api/admin/user/delete", params=query)) == expected
    assert get_refusal(admin.post("/api/admin/user/cancel_2fa", params=query)) == expected


@pytest.mark.parametrize("path", ["..", "/../x", "/a/../..", "/a/../b", "a\\..\\b", "/x\0y"])
def test_a_base_path_that_escapes_is_refused(admin: Client, path: str) -> None:
    name = uuid4().hex
    assert admin.post("/api/admin/user/create", username=name, base_path=path)["code"] in (400, 403)
    assert name not in {row["username"] for row in list_users(admin)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"permission": -1},
        {"permission": 0x10000},
        {"permission": "8"},
        {"permission": 1.5},
        {"disabled": "false"},
        {"username": 5},
        {"username": "a\nb"},
        {"username": "x" * 300},
        {"password": "x" * 2000},
        {"role": True},
    ],
)
def test_fields_that_do_not_fit_are_refused(admin: Client, wrong: dict[str, Any]) -> None:
    before = len(list_users(admin))
    answer = admin.post("/api/admin/user/create", **({"username": uuid4().hex} | wrong))
    assert get_refusal(answer)[0] == 400
    assert len(list_users(admin)) == before


def test_names_with_any_printable_sign_are_kept_as_they_are(service: Service, accounts: People) -> None:
    for name in ("Zoë 🎈", "a/b\\c", "<script>alert(1)</script>", "' OR 1=1 --", "..", "%2e%2e", "a#b"):
        person = accounts.new(username=f"{name} {uuid4().hex}")
        assert get_data(person.client.get("/api/me"))["username"] == person.name


def test_a_user_with_the_base_path_of_a_prefix_does_not_see_the_sibling(
    admin: Client, accounts: People, folder: str
) -> None:
    for name in ("team", "teammates"):
        admin.ok("/api/fs/mkdir", path=f"{folder}/{name}/of-{name}")
    client = accounts.new(permission=0xFFFF, base_path=f"{folder}/team").client
    assert client.names("/") == ["of-team"]
    for path in ("../teammates", "/../teammates", "/..\\teammates", "mates", "/mates/of-teammates"):
        assert client.post("/api/fs/list", path=path)["code"] in (403, 500)


def test_a_deleted_user_is_gone(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    assert get_data(admin.post("/api/admin/user/delete", params={"id": person.id})) is None
    assert get_refusal(admin.get("/api/admin/user/get", id=person.id)) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/user/delete", params={"id": person.id})) == UNKNOWN
    assert get_refusal(person.login(service)) == (401, "Invalid username or password")


def test_del_cache_wants_the_name_of_a_user(admin: Client, accounts: People) -> None:
    person = accounts.new()
    assert get_data(admin.post("/api/admin/user/del_cache", params={"username": person.name})) is None
    assert get_refusal(admin.post("/api/admin/user/del_cache")) == (500, "username is empty")
    unknown = admin.post("/api/admin/user/del_cache", params={"username": uuid4().hex})
    assert get_refusal(unknown) == (500, "failed find user: record not found")
    assert get_data(person.client.get("/api/me"))["id"] == person.id
