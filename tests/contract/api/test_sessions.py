"""Ends and limits of sessions besides logging out."""

from __future__ import annotations

from uuid import uuid4

from tests.contract.api import fixtures
from tests.contract.api.accounts import (
    WRONG,
    People,
    get_data,
    get_me,
    get_refusal,
    stranger,
)
from tests.support.service import Client, Service

PASSWORD_CHANGED = (401, "Password has been changed, login please")


# What ends a session besides logging out
def test_a_password_change_ends_the_tokens_of_the_very_same_second(service: Service, accounts: People) -> None:
    person = accounts.new()
    tokens = [get_data(person.login(service))["token"] for _ in range(2)] + [person.client.token]
    get_data(person.client.post("/api/me/update", username=person.name, password="another one"))
    fresh = get_data(person.login(service, "another one"))["token"]
    assert [get_refusal(get_me(service, token)) for token in tokens] == [PASSWORD_CHANGED] * 3
    assert get_data(get_me(service, fresh))["id"] == person.id
    assert get_refusal(person.login(service)) == WRONG


def test_setting_the_same_password_again_ends_old_tokens_too(service: Service, accounts: People) -> None:
    person = accounts.new()
    get_data(person.client.post("/api/me/update", username=person.name, password=person.password))
    assert get_refusal(person.client.get("/api/me")) == PASSWORD_CHANGED
    assert get_data(person.login(service))["token"]


def test_a_password_given_by_the_administrator_ends_the_users_sessions(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"password": "given"})))
    assert get_refusal(person.client.get("/api/me")) == PASSWORD_CHANGED
    assert get_data(person.login(service, "given"))["token"]


def test_an_update_without_a_password_keeps_password_and_sessions(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"permission": 1})))
    assert get_data(person.client.get("/api/me"))["permission"] == 1
    assert get_data(person.login(service))["token"]


def test_disabling_user_ends_access_until_enabled(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new(permission=0xFFFF)
    row = person.row(admin)
    get_data(admin.post("/api/admin/user/update", **(row | {"disabled": True})))
    expected = (401, "Current user is disabled, replace please")
    assert get_refusal(person.client.get("/api/me")) == expected
    assert get_refusal(person.client.post("/api/fs/list", path="/")) == expected
    assert get_refusal(person.client.get("/api/admin/user/list")) == expected
    assert get_refusal(person.client.put("/files/x", b"x")) == expected
    get_data(admin.post("/api/admin/user/update", **row))
    assert get_data(person.client.get("/api/me"))["id"] == person.id


def test_a_disabled_user_cannot_come_in_by_signing_in(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"disabled": True})))
    answer = person.login(service)
    if answer["code"] == 200:
        answer = get_me(service, answer["data"]["token"])
    assert get_refusal(answer) == (401, "Current user is disabled, replace please")


def test_a_deleted_users_token_is_dead_even_when_the_name_comes_back(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    get_data(admin.post("/api/admin/user/delete", params={"id": person.id}))
    assert get_refusal(person.client.get("/api/me")) == (401, "failed find user: record not found")
    accounts.new(username=person.name, password=person.password)
    assert get_refusal(person.client.get("/api/me")) == PASSWORD_CHANGED


def test_a_new_user_name_ends_the_sessions_of_the_old_one(service: Service, accounts: People) -> None:
    person = accounts.new()
    name = uuid4().hex
    get_data(person.client.post("/api/me/update", username=name))
    assert get_refusal(person.client.get("/api/me")) == (401, "failed find user: record not found")
    answer = stranger(service).post("/api/auth/login", username=name, password=person.password)
    assert get_data(get_me(service, get_data(answer)["token"]))["id"] == person.id


def test_a_right_taken_away_is_gone_for_tokens_that_exist(admin: Client, accounts: People, folder: str) -> None:
    person = accounts.new(permission=8)
    get_data(person.client.post("/api/fs/mkdir", path=f"{folder}/before"))
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"permission": 0})))
    assert get_refusal(person.client.post("/api/fs/mkdir", path=f"{folder}/after")) == (403, "permission denied")
    assert admin.names(folder) == ["before"]


def test_a_base_path_moved_away_confines_tokens_that_exist(admin: Client, accounts: People, folder: str) -> None:
    person = accounts.new()
    assert person.client.post("/api/fs/list", path=folder)["code"] == 200
    admin.ok("/api/fs/mkdir", path=f"{folder}/home/inner")
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"base_path": f"{folder}/home"})))
    assert person.client.names("/") == ["inner"]
    assert person.client.post("/api/fs/list", path=folder)["message"] == fixtures.NOTHING_THERE
