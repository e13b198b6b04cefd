"""Sign-in with a directory over HTTP, against slapd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.api import fixtures
from tests.support.service import Client, Service
from tests.support.slapd import BASE, MANAGER, MANAGER_PASSWORD, PASSWORD, Directory, run_slapd

LOGIN = "/api/auth/login/ldap"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with run_slapd(tmp_path_factory.mktemp("slapd")) as server:
        yield server


@pytest.mark.parametrize("prefix", ["", "/openlist"])
def test_user_of_the_directory_signs_in(service: Service, admin: Client, server: Directory, prefix: str) -> None:
    values = {
        "ldap_login_enabled": "true", "ldap_server": server.plain, "ldap_manager_dn": MANAGER,
        "ldap_manager_password": MANAGER_PASSWORD, "ldap_user_search_base": BASE, "ldap_default_permission": "8",
    }  # fmt: skip
    client = service.anonymous()
    with fixtures.settings(admin, **values):
        token = client.ok(f"{prefix}{LOGIN}", username="bob", password=PASSWORD)["token"]
        me = Client(service.address, token).get("/api/me")["data"]
        assert (me["username"], me["permission"], me["allow_ldap"]) == ("bob", 8, True)
        for password in ("", "wrong"):
            assert client.post(f"{prefix}{LOGIN}", username="bob", password=password)["code"] == 401
        assert client.post(f"{prefix}{LOGIN}", username="admin", password=PASSWORD)["code"] == 403
        assert MANAGER_PASSWORD not in str(client.get("/api/public/settings"))
    admin.ok("/api/admin/user/delete", params={"id": me["id"]})


def test_directory_is_off_until_it_is_switched_on(service: Service) -> None:
    answer = service.anonymous().post(LOGIN, username="bob", password=PASSWORD)
    assert (answer["code"], answer["message"]) == (403, "ldap is not enabled")


def test_filter_without_a_place_for_the_name_is_refused(admin: Client) -> None:
    rows = [{"key": "ldap_user_search_filter", "value": "(uid=ann)"}]
    answer = admin.envelope(admin.http.post("/api/admin/setting/save", json=rows))
    assert answer["code"] == 500 and "%s" in answer["message"]
