"""The list of open sessions over HTTP, and the requests that end them."""

from __future__ import annotations

import time
from typing import Any

from tests.contract.api.accounts import (
    INVALIDATED,
    Caller,
    People,
    Person,
    get_data,
    get_me,
    get_refusal,
    stranger,
)
from tests.support.service import Client, Service

ENDED = (401, "Password has been changed, login please")
NO_SESSION = (404, "session not found")
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def sign_in(service: Service, person: Person, **headers: str) -> Caller:
    """Return a further session of a person, from an address of its own."""
    client = stranger(service, **headers)
    token = get_data(client.post("/api/auth/login", username=person.name, password=person.password))["token"]
    client.token = token
    client.http.headers["authorization"] = token
    return client


def list_own(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get_data(client.get("/api/me/sessions"))
    return rows


def test_session_is_listed_with_device_place_and_times(service: Service, accounts: People) -> None:
    person = accounts.new()
    client = sign_in(service, person, **{"user-agent": BROWSER})
    (row,) = [row for row in list_own(client) if row["current"]]
    assert (row["ua"], row["ip"], row["status"]) == (BROWSER, client.source, 0)
    assert (row["user_id"], row["username"]) == (person.id, person.name)
    assert abs(row["last_active"] - time.time()) < 60
    assert row["created"] < row["expires"]
    assert len(list_own(client)) == 2
    assert [row["current"] for row in list_own(person.client)].count(True) == 1


def test_session_that_its_user_ends_is_refused(service: Service, accounts: People) -> None:
    person = accounts.new()
    other = sign_in(service, person)
    id = next(row["session_id"] for row in list_own(other) if row["current"])
    assert get_data(person.client.post("/api/me/sessions/evict", session_id=id)) is None
    assert get_refusal(get_me(service, other.token)) == INVALIDATED
    assert id not in [row["session_id"] for row in list_own(person.client)]
    assert get_refusal(person.client.post("/api/me/sessions/evict", session_id=id)) == NO_SESSION


def test_session_after_logout_is_not_listed(service: Service, accounts: People) -> None:
    person = accounts.new()
    other = sign_in(service, person)
    get_data(other.get("/api/auth/logout"))
    assert [row["current"] for row in list_own(person.client)] == [True]


def test_user_ends_all_other_sessions_and_keeps_their_own(service: Service, accounts: People) -> None:
    person = accounts.new()
    other = sign_in(service, person)
    assert get_data(person.client.post("/api/me/sessions/evict_others")) is None
    assert get_refusal(get_me(service, other.token)) == ENDED
    assert [row["current"] for row in list_own(person.client)] == [True]
    assert get_data(person.login(service))["token"], "the password stays"


def test_user_cannot_see_or_end_sessions_of_others(service: Service, accounts: People) -> None:
    person, stranger_ = accounts.new(), accounts.new()
    id = list_own(person.client)[0]["session_id"]
    assert get_refusal(stranger_.client.post("/api/me/sessions/evict", session_id=id)) == NO_SESSION
    assert id not in [row["session_id"] for row in list_own(stranger_.client)]
    assert get_data(person.client.get("/api/me"))["id"] == person.id


def test_administrator_lists_and_ends_sessions(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    other = sign_in(service, person)
    rows = get_data(admin.get("/api/admin/session/list", uid=person.id))
    assert [row["username"] for row in rows] == [person.name] * 2
    ids = {row["session_id"] for row in rows}
    assert ids <= {row["session_id"] for row in get_data(admin.get("/api/admin/session/list"))}
    id = next(row["session_id"] for row in list_own(other) if row["current"])
    assert get_data(admin.post("/api/admin/session/evict", session_id=id)) is None
    assert get_refusal(get_me(service, other.token)) == INVALIDATED
    assert get_data(admin.post("/api/admin/session/evict_all", params={"uid": person.id})) is None
    assert get_refusal(person.client.get("/api/me")) == ENDED
    assert get_data(admin.get("/api/admin/session/list", uid=person.id)) == []


def test_session_of_a_disabled_user_is_inactive(admin: Client, accounts: People) -> None:
    person = accounts.new()
    get_data(admin.post("/api/admin/user/update", **(person.row(admin) | {"disabled": True})))
    (row,) = get_data(admin.get("/api/admin/session/list", uid=person.id))
    assert row["status"] == 1


def test_unknown_or_missing_id_is_refused(admin: Client) -> None:
    assert get_refusal(admin.post("/api/admin/session/evict", session_id="of no session")) == NO_SESSION
    assert admin.post("/api/admin/session/evict")["code"] == 400
    assert admin.post("/api/admin/session/evict", session_id="x" * 65)["code"] == 400
    assert get_refusal(admin.get("/api/admin/session/list", uid=10**9)) == (404, "user invalid")
