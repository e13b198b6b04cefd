"""One's own account and its SSH keys."""

from __future__ import annotations

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.contract.api.accounts import (
    WRONG,
    People,
    attempt,
    get_data,
    get_refusal,
    stranger,
)
from tests.support.service import Client, Service


# One's own account
def test_me_shows_exactly_the_documented_fields_and_no_password(admin: Client, accounts: People) -> None:
    person = accounts.new(permission=5, base_path="/a//b/", sso_id="abc")
    assert get_data(person.client.get("/api/me")) == {
        "id": person.id,
        "username": person.name,
        "password": "",
        "base_path": "/a/b",
        "role": 0,
        "disabled": False,
        "permission": 5,
        "sso_id": "abc",
        "allow_ldap": True,
        "otp": False,
    }
    assert get_data(admin.get("/api/me"))["permission"] == 29183


def test_me_update_changes_name_and_sso_id_and_nothing_else(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new(permission=1, base_path="/a")
    name = uuid4().hex
    before = person.row(admin)
    wish = {"role": 2, "permission": 0xFFFF, "base_path": "/", "id": 1, "disabled": True, "otp_secret": "A" * 32}
    get_data(person.client.post("/api/me/update", username=name, sso_id="mine", **wish))
    assert person.row(admin) == before | {"username": name, "sso_id": "mine"}
    assert get_data(attempt(stranger(service), name, person.password))["token"]
    assert get_data(admin.get("/api/me"))["username"] == "admin"


def test_me_update_forgets_an_sso_id_that_is_left_out(admin: Client, accounts: People) -> None:
    person = accounts.new(sso_id="abc")
    get_data(person.client.post("/api/me/update", username=person.name))
    assert person.row(admin)["sso_id"] == ""


def test_me_update_needs_a_user_name_that_is_free(admin: Client, accounts: People) -> None:
    person, other = accounts.new(), accounts.new()
    assert get_refusal(person.client.post("/api/me/update", password="x")) == (400, "username is required")
    for name in (other.name, "admin", "guest"):
        assert get_refusal(person.client.post("/api/me/update", username=name)) == (
            500,
            "the username is taken",
        )
    assert person.client.post("/api/me/update", username="a\nb")["code"] == 400
    assert get_data(person.client.get("/api/me"))["username"] == person.name


def test_a_refused_me_update_leaves_the_password_as_it_was(service: Service, accounts: People) -> None:
    person = accounts.new()
    get_refusal(person.client.post("/api/me/update", username="admin", password="another one"))
    assert get_data(person.client.get("/api/me"))["id"] == person.id
    assert get_data(person.login(service))["token"]
    assert get_refusal(person.login(service, "another one")) == WRONG


# SSH keys
def make_key(comment: str = "me@home") -> tuple[str, str]:
    """A public key line and its fingerprint."""
    line = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return f"{line} {comment}", "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def list_keys(client: Client) -> list[dict[str, Any]]:
    data = get_data(client.get("/api/me/sshkey/list"))
    assert data["total"] == len(data["content"])
    rows: list[dict[str, Any]] = data["content"]
    return rows


def test_a_key_is_added_listed_and_deleted_by_its_owner(accounts: People) -> None:
    client = accounts.new().client
    line, fingerprint = make_key()
    assert list_keys(client) == []
    assert get_data(client.post("/api/me/sshkey/add", title="laptop", key=f"  {line}\n")) is None
    [row] = list_keys(client)
    assert set(row) == {"id", "title", "fingerprint", "added_time", "last_used_time"}
    assert row["title"] == "laptop"
    assert row["added_time"] == row["last_used_time"]
    assert row["fingerprint"][:12] == fingerprint[:12] and row["fingerprint"][-4:] == fingerprint[-4:]
    assert row["fingerprint"][12:-4] == "*" * (len(fingerprint) - 16)
    existing = client.get("/openlist/api/me/sshkey/list")["data"]["content"]
    assert [key["fingerprint"] for key in existing] == [fingerprint]
    assert get_data(client.post("/api/me/sshkey/delete", params={"id": row["id"]})) is None
    assert list_keys(client) == []


def test_keys_that_cannot_be_added_are_refused_with_the_known_messages(accounts: People) -> None:
    client = accounts.new().client
    line, _ = make_key()
    for body in ({}, {"title": "t"}, {"key": line}, {"title": "", "key": line}, {"title": "t", "key": ""}):
        assert get_refusal(client.post("/api/me/sshkey/add", **body)) == (400, "request invalid")
    get_data(client.post("/api/me/sshkey/add", title="taken", key=line))
    taken = (500, "key with the same title already exists")
    assert get_refusal(client.post("/api/me/sshkey/add", title="taken", key=make_key()[0])) == taken
    assert get_refusal(client.post("/api/me/sshkey/add", title="taken", key="nonsense")) == taken
    private = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
    for bad in ("nonsense", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 !!!!", f"{line}\n{line}", private):
        assert get_refusal(client.post("/api/me/sshkey/add", title="new", key=bad)) == (400, "provided key invalid")
    assert [row["title"] for row in list_keys(client)] == ["taken"]


def test_the_same_key_and_the_same_title_may_belong_to_two_users(accounts: People) -> None:
    line, _ = make_key()
    for client in (accounts.new().client, accounts.new().client):
        get_data(client.post("/api/me/sshkey/add", title="laptop", key=line))
        assert len(list_keys(client)) == 1


def test_of_two_additions_of_one_title_at_the_same_time_one_wins(accounts: People) -> None:
    client = accounts.new().client
    with ThreadPoolExecutor(4) as pool:
        bodies = [{"title": "one", "key": make_key()[0]} for _ in range(4)]
        codes = sorted(pool.map(lambda body: client.post("/api/me/sshkey/add", **body)["code"], bodies))
    assert codes == [200, 500, 500, 500]
    assert len(list_keys(client)) == 1


def test_a_key_of_another_user_is_as_missing_as_one_that_never_was(accounts: People) -> None:
    owner, thief = accounts.new().client, accounts.new(permission=0xFFFF).client
    get_data(owner.post("/api/me/sshkey/add", title="laptop", key=make_key()[0]))
    id = list_keys(owner)[0]["id"]
    foreign = get_refusal(thief.post("/api/me/sshkey/delete", params={"id": id}))
    unknown = get_refusal(thief.post("/api/me/sshkey/delete", params={"id": 10**9}))
    assert foreign == unknown == (404, "failed to get public key")
    assert [row["id"] for row in list_keys(owner)] == [id]
    assert list_keys(thief) == []


@pytest.mark.parametrize("id", ["", "x", "1.5", "1e3", " 1", "9" * 30, "٣"])
def test_a_key_id_that_is_none_is_a_400(admin: Client, id: str) -> None:
    assert get_refusal(admin.post("/api/me/sshkey/delete", params={"id": id})) == (400, "id format invalid")
    assert get_refusal(admin.post("/api/admin/user/sshkey/delete", params={"id": id})) == (400, "id format invalid")
    assert get_refusal(admin.get("/api/admin/user/sshkey/list", uid=id)) == (400, "user id format invalid")


def test_the_administrator_lists_and_deletes_the_keys_of_one_user(admin: Client, accounts: People) -> None:
    first, second = accounts.new(), accounts.new()
    for person in (first, second):
        get_data(person.client.post("/api/me/sshkey/add", title="laptop", key=make_key()[0]))
    data = get_data(admin.get("/api/admin/user/sshkey/list", uid=first.id))
    assert data == {"content": list_keys(first.client), "total": 1}
    id = data["content"][0]["id"]
    assert get_data(admin.post("/api/admin/user/sshkey/delete", params={"id": id})) is None
    assert get_data(admin.post("/api/admin/user/sshkey/delete", params={"id": id})) is None
    assert list_keys(first.client) == []
    assert len(list_keys(second.client)) == 1
    assert get_refusal(admin.get("/api/admin/user/sshkey/list", uid=10**9)) == (404, "user invalid")


def test_a_deleted_users_keys_go_with_him(admin: Client, accounts: People) -> None:
    person, other = accounts.new(), accounts.new()
    line, _ = make_key()
    get_data(person.client.post("/api/me/sshkey/add", title="laptop", key=line))
    get_data(other.client.post("/api/me/sshkey/add", title="laptop", key=line))
    get_data(admin.post("/api/admin/user/delete", params={"id": person.id}))
    assert get_refusal(admin.get("/api/admin/user/sshkey/list", uid=person.id)) == (404, "user invalid")
    assert len(list_keys(other.client)) == 1
