"""Passkeys over HTTP, with an authenticator in software."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pyotp
import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, Person
from tests.support.authenticator import Authenticator
from tests.support.service import Client, Service

AUTHN = "/api/authn"


@pytest.fixture
def enabled(admin: Client) -> Iterator[None]:
    with fixtures.settings(admin, webauthn_login_enabled="true"):
        yield


def find_origin(service: Service) -> str:
    return f"http://localhost:{urlsplit(service.address).port}"


def answer(client: Client, verb: str, session: str, credential: Any, **query: str) -> dict[str, Any]:
    reply = client.http.post(f"{AUTHN}/{verb}", json=credential, params=query, headers={"session": session})
    return client.envelope(reply)


def register(service: Service, person: Person, **query: str) -> Authenticator:
    client, authenticator = Client(find_origin(service), person.client.token), Authenticator(find_origin(service))
    begun = client.get(f"{AUTHN}/webauthn_begin_registration")
    assert begun["code"] == 200, begun
    credential = authenticator.create(begun["data"]["options"])
    finished = answer(client, "webauthn_finish_registration", begun["data"]["session"], credential, **query)
    assert (finished["code"], finished["data"]) == (200, "Registered Successfully")
    return authenticator


def sign_in(service: Service, authenticator: Authenticator, prefix: str = "", **query: str) -> dict[str, Any]:
    client = Client(find_origin(service))
    begun = client.envelope(client.http.get(f"{prefix}{AUTHN}/webauthn_begin_login", params=query))["data"]
    credential = authenticator.get(begun["options"])
    path = f"{prefix}{AUTHN}/webauthn_finish_login"
    return client.envelope(client.http.post(path, json=credential, params=query, headers={"session": begun["session"]}))


@pytest.mark.usefixtures("enabled")
def test_passkey_is_registered_signs_in_and_is_deleted(service: Service, accounts: People) -> None:
    person = accounts.new()
    authenticator = register(service, person, title="laptop")
    for prefix in ("", "/openlist"):  # the clients of the family use the second
        token = sign_in(service, authenticator, prefix)["data"]["token"]
        assert Client(service.address, token).get("/api/me")["data"]["username"] == person.name
    (row,) = person.client.get(f"{AUTHN}/getcredentials")["data"]
    assert row["title"] == "laptop"
    assert row["fingerprint"] == bytes(range(16)).hex(" ").upper()
    assert person.client.ok(f"{AUTHN}/delete_authn", id=row["id"]) == "Deleted Successfully"
    assert sign_in(service, authenticator)["code"] == 401
    assert person.client.get(f"{AUTHN}/getcredentials")["data"] == []


@pytest.mark.usefixtures("enabled")
def test_passkey_of_another_user_name_is_refused(service: Service, accounts: People) -> None:
    person, other = accounts.new(), accounts.new()
    authenticator = register(service, person)
    assert sign_in(service, authenticator, username=person.name)["code"] == 200
    assert sign_in(service, authenticator, username=other.name)["code"] == 401


@pytest.mark.usefixtures("enabled")
def test_registration_of_a_user_with_second_factor_needs_a_code(service: Service, accounts: People) -> None:
    person = accounts.new()
    client = Client(find_origin(service), person.client.token)
    secret = client.ok("/api/auth/2fa/generate")["secret"]
    client.ok("/api/auth/2fa/verify", code=pyotp.TOTP(secret).now(), secret=secret)
    for code in ("", "000000", pyotp.TOTP(secret).now()):  # the last one is used
        refused = client.get(f"{AUTHN}/webauthn_begin_registration", code=code)
        assert (refused["code"], "present code" in refused["message"]) == (401, True)
    following = pyotp.TOTP(secret).at(time.time() + 30)
    assert client.get(f"{AUTHN}/webauthn_begin_registration", code=following)["code"] == 200


@pytest.mark.usefixtures("enabled")
def test_passkeys_end_with_their_user(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    authenticator = register(service, person)
    admin.ok("/api/admin/user/delete", params={"id": person.id})
    assert sign_in(service, authenticator)["code"] == 401


@pytest.mark.usefixtures("enabled")
def test_guest_and_address_without_a_name_have_no_passkeys(service: Service, accounts: People) -> None:
    assert Client(find_origin(service)).get(f"{AUTHN}/webauthn_begin_registration")["code"] == 401
    refused = accounts.new().client.get(f"{AUTHN}/webauthn_begin_registration")
    assert refused["code"] == 400
    assert "MANGROVE_SITE_URL" in refused["message"]


def test_passkeys_are_off_until_they_are_switched_on(service: Service, accounts: People) -> None:
    client = Client(find_origin(service), accounts.new().client.token)
    for verb in ("webauthn_begin_login", "webauthn_begin_registration"):
        refused = client.get(f"{AUTHN}/{verb}")
        assert (refused["code"], refused["message"]) == (403, "WebAuthn is not enabled")
    for verb in ("webauthn_finish_login", "webauthn_finish_registration"):
        assert client.post(f"{AUTHN}/{verb}")["code"] == 403
