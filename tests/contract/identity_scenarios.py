"""Requests that need the rights of single sign-on, passkeys and tokens, and of storages that keep what is removed."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import urlencode

from mangrove.identity.app_passwords import USE_INTERVAL_SECONDS
from tests.contract.scenarios import Person, register_passkey
from tests.servers import dav
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, run_identity_provider

PASSWORD = "a long password"


def save_settings(admin: Person, **values: str) -> None:
    rows = [{"key": key, "value": value} for key, value in values.items()]
    answer = json.loads(admin.raw("settings/save", {"body": json.dumps(rows)})["body"])
    assert answer["code"] == 200, answer


def run_all(admin: Person) -> None:
    end_sessions(admin)
    sign_in_at_provider(admin)
    delete_user_with_passkey(admin)
    keep_removed(admin)


def end_sessions(admin: Person) -> None:
    """End a session of one's own, one of another user, and all of another user."""
    person, others = create_user(admin, "evicted"), [Person(admin.cloud) for _ in range(2)]
    for other in others:
        other.sign_in("evicted", PASSWORD)
    id, uid = find_session(person.gets("auth/sessions")), find_id(admin, "evicted")
    person.gets("auth/session_evict", session_id=id)
    assert len(person.gets("auth/sessions")) == 2
    assert find_session(admin.gets("users/session_list", ""))
    admin.gets("users/session_evict", session_id=find_session(person.gets("auth/sessions")))
    person.gets("auth/session_evict_others")
    assert len(admin.gets("users/session_list", f"uid={uid}")) == 1
    admin.gets("users/session_evict_all", f"uid={uid}")
    assert admin.gets("users/session_list", f"uid={uid}") == []
    admin.gets("users/delete", f"id={uid}")


def find_session(rows: Any) -> str:
    """Return the id of a session other than that of the request."""
    id: str = next(row["session_id"] for row in rows if not row["current"])
    return id


def sign_in_at_provider(admin: Person) -> None:
    """Claims that give and take the membership in a group and the role of administrator."""
    admin.gets("users/group_create", name="editors")
    with run_identity_provider() as provider:
        save_settings(
            admin, sso_login_enabled="true", sso_login_platform="OIDC", sso_client_id=CLIENT_ID,
            sso_client_secret=CLIENT_SECRET, sso_endpoint_name=provider.address, sso_auto_register="true",
            sso_group_claim="groups", sso_group_mapping="staff = editors", sso_admin_claim="groups",
            sso_admin_value="root",
        )  # fmt: skip
        for groups in (["staff", "root"], []):
            provider.claims = {"name": "claimed", "groups": groups}
            _pass_through_provider(admin, provider)
            (group,) = admin.gets("users/group_list")["content"]
            assert len(group["members"]) == bool(groups)
    save_settings(admin, sso_login_enabled="false")
    admin.gets("users/group_delete", f"id={group['id']}")
    admin.gets("users/delete", f"id={find_id(admin, 'claimed')}")


def _pass_through_provider(admin: Person, provider: IdentityProvider) -> None:
    visitor = Person(admin.cloud)
    begun = visitor.raw("auth/sso", {"rawQueryString": "method=sso_get_token"})
    assert begun["statusCode"] == 302, begun
    parameters = provider.begin(begun["headers"]["location"])
    cookies = [cookie.partition(";")[0] for cookie in begun["cookies"]]
    answer = visitor.raw("auth/sso_callback", {"rawQueryString": urlencode(parameters), "cookies": cookies})
    assert answer["statusCode"] == 200, answer


def find_id(admin: Person, username: str) -> int:
    """Return the id of a user."""
    id: int = next(user["id"] for user in admin.gets("users/list", "")["content"] if user["username"] == username)
    return id


def create_user(admin: Person, username: str) -> Person:
    """Create a user with all permissions, and sign in."""
    user = {"username": username, "password": PASSWORD, "base_path": "/", "role": 0, "permission": 0xFFFF}
    admin.gets("users/create", **user)
    return Person(admin.cloud).sign_in(username, PASSWORD)


def delete_user_with_passkey(admin: Person) -> None:
    register_passkey(create_user(admin, "holder"))
    admin.gets("users/delete", f"id={find_id(admin, 'holder')}")


def keep_removed(admin: Person) -> None:
    """Files of a storage that moves them into its trash: removed by several functions, listed and restored."""
    person = create_user(admin, "keeper")
    with dav.wsgidav() as server:
        options = server.make_options(trash_days=30)
        id = admin.gets("storages/create", mount_path="/kept", driver="WebDav", addition=json.dumps(options))["id"]
        for name in ("a", "b", "c"):
            assert person.puts(f"/kept/{name}", b"x") == 200
        assert person.puts("/kept/a", b"y") == 200  # replaces it
        person.gets("files/remove", dir="/kept", names=["a", "b"])
        assert _send_by_webdav(person, "DELETE", "/kept/c") == 204
        rows = person.gets("files/trash_list", path="")["content"]
        assert len(rows) == 4
        restored = person.gets("files/trash_restore", ids=[row["id"] for row in rows if row["name"] == "b"])
        assert not restored.get("failed"), restored
        person.gets("files/trash_delete", ids=[row["id"] for row in rows if row["name"] == "c"])
        assert len(person.gets("files/trash_list", path="/kept")["content"]) == 2
        admin.gets("storages/delete", f"id={id}")
    admin.gets("users/delete", f"id={find_id(admin, 'keeper')}")


def _send_by_webdav(person: Person, method: str, path: str) -> Any:
    basic = base64.b64encode(f"keeper:{PASSWORD}".encode()).decode()
    request = {"method": method, "path": f"/dav{path}"}
    return person.raw("dav/entry", {"http": request, "headers": {"authorization": f"Basic {basic}"}})["statusCode"]


class UnusedToken:
    """A token whose first use is recorded, once the time between two records is over."""

    def __init__(self, admin: Person) -> None:
        self._admin = admin
        owner = create_user(admin, "bearer")
        self._text = owner.gets("auth/token_create", title="later", protocols=["api"])["token"]
        self._created = time.monotonic()

    def use(self) -> None:
        """Use the token, and delete its owner."""
        time.sleep(max(0.0, self._created + USE_INTERVAL_SECONDS + 1 - time.monotonic()))
        Person(self._admin.cloud, self._text).gets("files/list", path="/files")
        self._admin.gets("users/delete", f"id={find_id(self._admin, 'bearer')}")
