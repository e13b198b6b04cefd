"""The audit over HTTP: what is recorded, who may read it, and its filters."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, get_data, get_refusal, stranger
from tests.support.service import Client, Service


def list_actions(admin: Client, **filters: Any) -> list[dict[str, Any]]:
    """Return the actions of all pages, the last first, without their ids and times."""
    rows: list[dict[str, Any]] = []
    start = ""
    while True:
        page = admin.ok("/api/admin/audit/list", **filters, start=start)
        rows += page["content"]
        start = page["next"]
        if not start:
            return [{key: row[key] for key in ("username", "action", "target", "address")} for row in rows]


def test_sign_in_is_recorded_with_user_address_and_way(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    client = stranger(service)
    get_data(client.post("/api/auth/login", username=person.name, password=person.password))
    last = list_actions(admin, username=person.name)[0]
    assert last == {"username": person.name, "action": "sign_in", "target": "login", "address": client.source}


def test_refused_sign_in_is_recorded_without_the_name_of_no_user(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    client = stranger(service)
    client.post("/api/auth/login", username=person.name, password="not the password")
    client.post("/api/auth/login", username="my secret password", password="x")
    refused = [row for row in list_actions(admin, action="sign_in_refused") if row["address"] == client.source]
    assert [(row["username"], row["target"]) for row in refused] == [("", "login"), (person.name, "login")]


def test_lockout_is_not_recorded(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    client = stranger(service)
    for _ in range(8):
        client.post("/api/auth/login", username=person.name, password="not the password")
    assert len(list_actions(admin, username=person.name, action="sign_in_refused")) == 5


def test_audit_of_no_days_records_nothing(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    before = list_actions(admin, username=person.name)
    with fixtures.settings(admin, audit_days="0"):
        get_data(stranger(service).post("/api/auth/login", username=person.name, password=person.password))
    assert list_actions(admin, username=person.name) == before


def test_audit_is_filtered_by_time(admin: Client) -> None:
    assert list_actions(admin, until="2020-01-01") == []
    assert list_actions(admin, since="2020-01-01", action="sign_in")
    refusal = admin.post("/api/admin/audit/list", since="yesterday")
    assert get_refusal(refusal)[0] == 400


def test_audit_refuses_another_start_and_size(admin: Client) -> None:
    for wrong in ({"start": "x"}, {"per_page": 0}, {"per_page": 201}, {"action": "nothing"}):
        assert get_refusal(admin.post("/api/admin/audit/list", **wrong))[0] == 400


def test_changes_of_administrators_are_recorded_with_what_they_changed(
    service: Service, admin: Client, accounts: People, folder: str
) -> None:
    person = accounts.new()
    admin.ok("/api/admin/group/create", name=f"group of {person.name}")
    group = next(row for row in admin.get("/api/admin/group/list")["data"]["content"] if person.name in row["name"])
    admin.ok("/api/admin/group/delete", params={"id": group["id"]})
    admin.ok("/api/admin/meta/create", path=folder, password="a secret of the rule")
    rule = next(row for row in admin.get("/api/admin/meta/list")["data"]["content"] if row["path"] == folder)
    admin.ok("/api/admin/meta/delete", params={"id": rule["id"]})
    share = admin.ok("/api/share/create", files=[folder], pwd="secret of share")
    admin.ok("/api/share/delete", params={"id": share["id"]})
    with fixtures.settings(admin, site_title="audited"):
        rows = list_actions(admin, username="admin")
    done = [(row["action"], row["target"]) for row in rows]
    assert done[:8] == [
        ("settings_save", "site_title"),
        ("share_delete", folder),
        ("share_create", folder),
        ("rule_delete", folder),
        ("rule_create", folder),
        ("group_delete", group["name"]),
        ("group_create", group["name"]),
        ("user_create", person.name),
    ]
    assert "secret" not in str(rows[:8])
    assert share["id"] not in str(rows[:8])


def test_changes_of_the_own_account_are_recorded(accounts: People, admin: Client) -> None:
    person = accounts.new()
    token = get_data(person.client.post("/api/me/token/create", title="laptop", protocols=["api"]))
    get_data(person.client.post("/api/me/token/delete", params={"id": token["id"]}))
    get_data(person.client.post("/api/me/update", username=person.name, password="another password"))
    rows = list_actions(admin, username=person.name)
    done = [(row["action"], row["target"]) for row in rows if row["action"] != "sign_in"]
    assert done == [
        ("account_update", person.name), ("token_delete", f"#{token['id']}"), ("token_create", "laptop"),
    ]  # fmt: skip
    assert token["token"] not in str(rows)


def test_storage_that_does_not_start_is_recorded_nevertheless(admin: Client) -> None:
    path = f"/audit-{uuid4().hex}"
    answer = admin.post(
        "/api/admin/storage/create", mount_path=path, driver="Local", addition='{"root_folder_path": "/no/such/folder"}'
    )
    id = answer["data"]["id"]
    admin.ok("/api/admin/storage/delete", params={"id": id})
    done = [(row["action"], row["target"]) for row in list_actions(admin, username="admin")[:2]]
    assert done == [("storage_delete", path), ("storage_create", path)]


def test_refused_sign_in_of_webdav_is_recorded(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new(permission=0xFFFF)
    client = stranger(service)
    answer = client.http.request("PROPFIND", "/dav/", auth=(person.name, "not the password"))
    assert answer.status_code == 401
    (row,) = list_actions(admin, username=person.name, action="sign_in_refused")
    assert (row["target"], row["address"]) == ("webdav", client.source)
