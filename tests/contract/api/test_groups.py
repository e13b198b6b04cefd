"""Groups over HTTP: administrators manage them, members have their permissions at the next request."""

from __future__ import annotations

from tests.contract.api import fixtures
from tests.contract.api.accounts import NOT_ADMIN, People, get_data, get_refusal
from tests.support.service import Client

WRITE, DELETE = 8, 128


def test_group_is_created_listed_changed_and_deleted(admin: Client, accounts: People, folder: str) -> None:
    person = accounts.new()
    fields = {"name": folder, "members": [person.id], "permission": DELETE}
    made = admin.ok("/api/admin/group/create", **fields, folders=[{"path": f"{folder}/", "permission": WRITE}])
    row = fields | {"id": made["id"], "folders": [{"path": folder, "permission": WRITE}]}
    assert made == row
    assert row in admin.get("/api/admin/group/list")["data"]["content"]
    assert person.client.ok("/api/fs/mkdir", path=f"{folder}/made") is None
    assert person.client.get("/api/me")["data"]["permission"] == DELETE
    admin.ok("/api/admin/group/update", **row | {"folders": []})
    assert person.client.post("/api/fs/mkdir", path=f"{folder}/refused")["code"] == 403
    assert person.client.ok("/api/fs/remove", dir=folder, names=["made"]) is None
    admin.ok("/api/admin/group/delete", params={"id": made["id"]})
    assert get_refusal(admin.get("/api/admin/group/get", id=made["id"])) == (404, "group not found")
    assert person.client.get("/api/me")["data"]["permission"] == 0


def test_rule_names_a_group(admin: Client, accounts: People, folder: str) -> None:
    member, other = accounts.new(permission=WRITE), accounts.new(permission=WRITE)
    id = admin.ok("/api/admin/group/create", name=folder, members=[member.id])["id"]
    with fixtures.meta(admin, folder, read_groups=[id], read_users_sub=True, write_groups=[id], write_users_sub=True):
        assert member.client.post("/api/fs/list", path=folder)["code"] == 200
        assert member.client.ok("/api/fs/mkdir", path=f"{folder}/a") is None
        assert other.client.post("/api/fs/list", path=folder)["code"] == 403
        assert other.client.post("/api/fs/mkdir", path=f"{folder}/b")["code"] == 403
    admin.ok("/api/admin/group/delete", params={"id": id})


def test_folder_of_a_group_is_kept_clean_or_refused(admin: Client, folder: str) -> None:
    for path in ("..", "/a/../..", "\0"):
        answer = admin.post("/api/admin/group/create", name=folder, folders=[{"path": path, "permission": 1}])
        assert answer["code"] in (400, 403), path
    made = admin.ok("/api/admin/group/create", name=folder, folders=[{"path": "a\\b//c/", "permission": 1}])
    assert made["folders"] == [{"path": "/a/b/c", "permission": 1}]
    admin.ok("/api/admin/group/delete", params={"id": made["id"]})


def test_member_of_every_group_is_no_administrator(admin: Client, accounts: People, folder: str) -> None:
    person = accounts.new()
    id = admin.ok("/api/admin/group/create", name=folder, members=[person.id], permission=0xFFFF)["id"]
    assert get_refusal(person.client.get("/api/admin/group/list")) == NOT_ADMIN
    assert get_data(person.client.get("/api/me"))["role"] == 0
    admin.ok("/api/admin/group/delete", params={"id": id})
