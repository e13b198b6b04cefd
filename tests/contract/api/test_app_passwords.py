"""Application passwords over HTTP: shown once, listed without what they are, removed by owner or administrator."""

from __future__ import annotations

from tests.contract.api.accounts import People, get_data, get_refusal
from tests.support.service import Client, Service

OWN_PATH, ADMIN_PATH = "/api/me/app_password", "/api/admin/user/app_password"


def test_one_is_shown_once_listed_and_deleted_by_its_owner(service: Service, accounts: People) -> None:
    person = accounts.new()
    assert get_data(person.client.get(f"{OWN_PATH}/list")) == {"content": [], "total": 0}
    made = get_data(person.client.post(f"{OWN_PATH}/add", title="phone"))
    assert set(made) == {"id", "title", "password"} and made["title"] == "phone"
    listed = person.client.get(f"{OWN_PATH}/list")
    (row,) = get_data(listed)["content"]
    assert set(row) == {"id", "title", "added_time", "last_used_time"} and row["id"] == made["id"]
    assert made["password"] not in str(listed)
    assert person.login(service, made["password"])["code"] == 401
    assert get_data(person.client.post(f"{OWN_PATH}/delete", params={"id": row["id"]})) is None
    assert get_data(person.client.get(f"{OWN_PATH}/list"))["total"] == 0


def test_what_is_no_title_or_a_taken_one_is_refused(accounts: People) -> None:
    client = accounts.new().client
    for body in ({}, {"title": ""}, {"title": "  "}):
        code, message = get_refusal(client.post(f"{OWN_PATH}/add", **body))
        assert code == 400 and "title" in message
    assert get_refusal(client.post(f"{OWN_PATH}/add", title="x" * 256))[0] == 400
    get_data(client.post(f"{OWN_PATH}/add", title="taken"))
    taken = (500, "application password with the same title already exists")
    assert get_refusal(client.post(f"{OWN_PATH}/add", title="taken")) == taken
    assert get_data(client.get(f"{OWN_PATH}/list"))["total"] == 1


def test_that_of_another_user_is_as_missing_as_one_that_never_was(accounts: People) -> None:
    owner, thief = accounts.new().client, accounts.new(permission=0xFFFF).client
    id = get_data(owner.post(f"{OWN_PATH}/add", title="phone"))["id"]
    foreign = get_refusal(thief.post(f"{OWN_PATH}/delete", params={"id": id}))
    unknown = get_refusal(thief.post(f"{OWN_PATH}/delete", params={"id": 10**9}))
    assert foreign == unknown == (404, "failed to get application password")
    assert get_data(owner.get(f"{OWN_PATH}/list"))["total"] == 1


def test_the_administrator_lists_and_deletes_those_of_one_user(admin: Client, accounts: People) -> None:
    first, second = accounts.new(), accounts.new()
    for person in (first, second):
        get_data(person.client.post(f"{OWN_PATH}/add", title="phone"))
    data = get_data(admin.get(f"{ADMIN_PATH}/list", uid=first.id))
    assert data == get_data(first.client.get(f"{OWN_PATH}/list"))
    for _ in range(2):
        assert get_data(admin.post(f"{ADMIN_PATH}/delete", params={"id": data["content"][0]["id"]})) is None
    assert get_data(first.client.get(f"{OWN_PATH}/list"))["total"] == 0
    assert get_data(second.client.get(f"{OWN_PATH}/list"))["total"] == 1
    assert get_refusal(admin.get(f"{ADMIN_PATH}/list", uid=10**9)) == (404, "user invalid")
    assert get_refusal(admin.get(f"{ADMIN_PATH}/list", uid="x")) == (400, "user id format invalid")
    get_data(admin.post("/api/admin/user/delete", params={"id": second.id}))
    assert get_refusal(admin.get(f"{ADMIN_PATH}/list", uid=second.id)) == (404, "user invalid")
