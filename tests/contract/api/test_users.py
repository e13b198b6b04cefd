"""Administration of users."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.api.accounts import (
    NOT_ADMIN,
    Caller,
    People,
    find_id,
    get_data,
    get_refusal,
    make_static_hash,
    stranger,
)
from tests.support.service import Client, Service

NAME_TAKEN = (500, "the username is taken")
UNKNOWN = (500, "failed get old user: record not found")
NO_NAME = (400, "username is required")
FIELDS = {"id", "username", "password", "base_path", "role", "disabled", "permission", "sso_id", "allow_ldap"}


def list_users(admin: Client, **query: Any) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = get_data(admin.get("/api/admin/user/list", **query))["content"]
    return content


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
    assert next(user for user in list_users(admin) if user["id"] == person.id) == row
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
        assert code == 400 and message.endswith(" is no integer")


def test_a_user_name_is_required_and_unique(admin: Client, accounts: People) -> None:
    person, other = accounts.new(), accounts.new()
    assert get_refusal(admin.post("/api/admin/user/create", password="x")) == NO_NAME
    assert get_refusal(admin.post("/api/admin/user/create", username="")) == NO_NAME
    assert get_refusal(admin.post("/api/admin/user/create", username=person.name)) == NAME_TAKEN
    assert get_refusal(admin.post("/api/admin/user/create", username="admin")) == NAME_TAKEN
    row = person.row(admin)
    assert get_refusal(admin.post("/api/admin/user/update", **(row | {"username": ""}))) == NO_NAME
    assert get_refusal(admin.post("/api/admin/user/update", **(row | {"username": other.name}))) == NAME_TAKEN
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
    for user in list_users(admin)[:2]:
        refused = get_refusal(admin.post("/api/admin/user/update", **(user | {"role": 0})))
        assert refused == (400, "role can not be changed")
    assert person.row(admin) == row


def test_a_role_that_does_not_exist_is_no_administrator(service: Service, admin: Client, accounts: People) -> None:
    for role in (-1, 3, 2**40):
        name = uuid4().hex
        if admin.post("/api/admin/user/create", username=name, password="x", role=role)["code"] == 200:
            accounts.ids.append(find_id(admin, name))
            token = get_data(stranger(service).post("/api/auth/login", username=name, password="x"))["token"]
            assert get_refusal(Caller(service.address, token).get("/api/admin/user/list")) == NOT_ADMIN


def test_administrator_and_guest_cannot_be_deleted_or_disabled(admin: Client) -> None:
    boss, visitor = list_users(admin)[:2]
    refused = get_refusal(admin.post("/api/admin/user/update", **(boss | {"disabled": True})))
    assert refused == (400, "admin user can not be disabled")
    for user in (boss, visitor):
        refused = get_refusal(admin.post("/api/admin/user/delete", params={"id": user["id"]}))
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
    expected = (400, f'"{id or ""}" is no integer')
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
