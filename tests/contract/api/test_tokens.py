"""Session tokens: what they hold, attacks on them, logout; and the permanent token."""

from __future__ import annotations

import base64
import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.contract.api import fixtures
from tests.contract.api.accounts import (
    GUEST_DISABLED,
    INVALIDATED,
    Caller,
    People,
    Person,
    get_data,
    get_me,
    get_refusal,
    guest,
    stranger,
)
from tests.support.service import ADMIN_PASSWORD, Client, Service

LIFETIMES = (2, 4, 60)  # seconds of a token that is to be used: longer when the computer was too slow


# Tokens
def derive_secret(service: Service, purpose: bytes = b"jwt") -> bytes:
    """Return the key that signs tokens, derived again from the file of the data directory."""
    return HKDF(SHA256(), 32, salt=None, info=purpose).derive((service.data / "key").read_bytes())


def read_claims(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def test_token_is_jwt_for_48_hours_without_secrets(service: Service, someone: Person) -> None:
    token = someone.client.token
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    claims = jwt.decode(token, derive_secret(service), algorithms=["HS256"])
    assert set(claims) == {"username", "pwd_ts", "exp", "nbf", "iat", "jti"}
    assert claims["username"] == someone.name
    assert claims["exp"] - claims["iat"] == 48 * 3600
    assert claims["nbf"] == claims["iat"]
    assert abs(claims["iat"] - time.time()) < 60


def test_two_logins_in_one_second_are_two_sessions(service: Service, someone: Person) -> None:
    first, second = (get_data(someone.login(service))["token"] for _ in range(2))
    assert first != second
    get_data(Caller(service.address, first).get("/api/auth/logout"))
    assert get_refusal(get_me(service, first)) == INVALIDATED
    assert get_data(get_me(service, second))["username"] == someone.name


def encode_part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE"])
def test_a_token_that_asks_not_to_be_verified_is_refused(service: Service, admin: Client, algorithm: str) -> None:
    _, payload, signature = admin.token.split(".")
    header = encode_part(f'{{"alg":"{algorithm}","typ":"JWT"}}'.encode())
    for text in (f"{header}.{payload}.", f"{header}.{payload}.{signature}", f"{header}.{payload}"):
        assert get_refusal(get_me(service, text)) == INVALIDATED


@pytest.mark.parametrize("key", [b"", b"x" * 32, b"secret", b"records", b"key"])
def test_a_token_signed_with_another_key_is_refused(service: Service, admin: Client, key: bytes) -> None:
    for candidate in (key, derive_secret(service, key or b"x")):
        header, payload = encode_part(b'{"alg":"HS256","typ":"JWT"}'), admin.token.split(".")[1]
        signature = encode_part(hmac.digest(candidate, f"{header}.{payload}".encode(), "sha256"))
        assert get_refusal(get_me(service, f"{header}.{payload}.{signature}")) == INVALIDATED


def test_the_permanent_token_and_the_master_key_do_not_sign_sessions(service: Service, admin: Client) -> None:
    permanent = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    for key in (permanent.encode(), (service.data / "key").read_bytes()):
        assert get_refusal(get_me(service, jwt.encode(read_claims(admin.token), key, "HS256"))) == INVALIDATED


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_only_one_algorithm_is_accepted_even_with_the_right_key(
    service: Service, admin: Client, algorithm: str
) -> None:
    key = derive_secret(service)
    assert get_data(get_me(service, jwt.encode(read_claims(admin.token), key, "HS256")))["username"] == "admin"
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = jwt.encode(read_claims(admin.token), key, algorithm)
    assert get_refusal(get_me(service, token)) == INVALIDATED


def test_a_tampered_token_is_refused(service: Service, someone: Person) -> None:
    header, payload, signature = someone.client.token.split(".")
    claims = jwt.decode(f"{header}.{payload}.{signature}", options={"verify_signature": False})
    raised = encode_part(json.dumps(claims | {"username": "admin", "pwd_ts": 0}).encode())
    swapped = "A" if signature[5] != "A" else "B"
    for text in (
        f"{header}.{raised}.{signature}",
        f"{header}.{payload}.{signature[:5]}{swapped}{signature[6:]}",
        f"{header}.{payload}.{signature[:-2]}",
        f"{header}.{payload}.",
        f"{header}.{payload}",
        f"{payload}.{header}.{signature}",
    ):
        assert get_refusal(get_me(service, text)) == INVALIDATED


@pytest.mark.parametrize("text", ["garbage", "a.b.c", "...", "null", "0", "é", "x" * 8000, "{}", "Basic YWRtaW46YQ=="])
def test_what_is_no_token_is_refused(service: Service, text: str) -> None:
    answer = get_me_with(service, text.encode("latin-1"))
    assert get_refusal(answer) == INVALIDATED


def get_me_with(service: Service, header: bytes) -> dict[str, Any]:
    nobody = stranger(service)
    return nobody.envelope(nobody.http.get("/api/me", headers=[(b"authorization", header)]))


def test_token_behind_bearer_is_accepted(service: Service, admin: Client) -> None:
    permanent = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    for scheme in ("Bearer", "bearer", "BEARER"):
        for token in (admin.token, permanent):
            assert get_me(service, f"{scheme} {token}")["data"]["username"] == "admin"
        assert get_refusal(get_me(service, f"{scheme} x{admin.token}")) == INVALIDATED
        assert get_refusal(get_me(service, scheme)) == INVALIDATED


def test_logout_with_bearer_ends_the_session(service: Service, admin: Client) -> None:
    token = sign_in_again(service)
    with_bearer = Client(service.address, f"Bearer {token}")
    assert with_bearer.get("/api/auth/logout")["code"] == 200
    assert get_refusal(get_me(service, token)) == INVALIDATED == get_refusal(get_me(service, f"Bearer {token}"))


def sign_in_again(service: Service) -> str:
    signed_in = Client(service.address).ok("/api/auth/login", username="admin", password=ADMIN_PASSWORD)
    token: str = signed_in["token"]
    return token


def test_token_behind_another_scheme_is_refused(service: Service, admin: Client) -> None:
    permanent = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    for scheme in ("Token", "JWT"):
        assert get_refusal(get_me(service, f"{scheme} {admin.token}")) == INVALIDATED
        assert get_refusal(get_me(service, f"{scheme} {permanent}")) == INVALIDATED


def test_a_token_is_only_taken_from_its_header(service: Service, admin: Client) -> None:
    nobody = stranger(service)
    for query, headers in (
        ({"token": admin.token}, {}),
        ({"authorization": admin.token}, {}),
        ({}, {"cookie": f"token={admin.token}; Authorization={admin.token}"}),
        ({}, {"x-authorization": admin.token, "x-remote-user": "admin", "remote-user": "admin"}),
    ):
        answer = nobody.envelope(nobody.http.get("/api/me", params=query, headers=headers))
        assert get_refusal(answer) == GUEST_DISABLED


def test_an_expired_token_is_refused_with_its_own_words(service: Service, someone: Person) -> None:
    claims = read_claims(someone.client.token)
    late = jwt.encode(claims | {"exp": int(time.time()) - 1}, derive_secret(service), "HS256")
    assert get_refusal(get_me(service, late)) == (401, "token is expired")


def test_a_token_expires_while_it_is_in_use(service: Service, someone: Person) -> None:
    claims = read_claims(someone.client.token)
    for lifetime in LIFETIMES:
        end = int(time.time()) + lifetime
        token = jwt.encode(claims | {"exp": end}, derive_secret(service), "HS256")
        answer = get_me(service, token)
        if time.time() < end:
            break
    assert get_data(answer)["username"] == claims["username"]
    time.sleep(max(end - time.time(), 0) + 0.02)
    assert get_refusal(get_me(service, token)) == (401, "token is expired")


def test_a_token_for_later_is_not_active_yet(service: Service, someone: Person) -> None:
    claims = read_claims(someone.client.token)
    early = jwt.encode(claims | {"nbf": int(time.time()) + 3600}, derive_secret(service), "HS256")
    assert get_refusal(get_me(service, early)) == (401, "token not active yet")


@pytest.mark.parametrize("claim", ["username", "pwd_ts", "exp", "nbf", "iat", "jti"])
def test_a_token_without_one_of_its_claims_is_refused(service: Service, admin: Client, claim: str) -> None:
    claims = read_claims(admin.token)
    del claims[claim]
    assert get_refusal(get_me(service, jwt.encode(claims, derive_secret(service), "HS256"))) == INVALIDATED


def test_logout_ends_this_token_at_once(service: Service, accounts: People) -> None:
    person = accounts.new()
    assert get_data(person.client.get("/api/me"))["id"] == person.id
    assert get_data(person.client.get("/api/auth/logout")) is None
    assert get_refusal(person.client.get("/api/me")) == INVALIDATED
    assert get_refusal(person.client.get("/api/auth/logout")) == INVALIDATED
    assert get_refusal(person.client.post("/api/fs/list", path="/")) == INVALIDATED


def test_logout_ends_every_spelling_of_the_token(service: Service, accounts: People) -> None:
    person = accounts.new()
    token = person.client.token
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = digits.index(token[-1])
    spellings = [token[:-1] + digits[last & ~3 | low] for low in range(4)] + [token + "=", token + "!", token + "=="]
    for text in spellings:
        get_me(service, text)
    get_data(person.client.get("/api/auth/logout"))
    assert {text: get_refusal(get_me(service, text)) for text in spellings} == dict.fromkeys(spellings, INVALIDATED)


def test_logout_with_another_spelling_ends_the_token_itself(service: Service, accounts: People) -> None:
    person = accounts.new()
    get_data(person.client.get("/api/me"))
    respelled = Caller(service.address, person.client.token + "=")
    if respelled.get("/api/auth/logout")["code"] == 200:
        assert get_refusal(person.client.get("/api/me")) == INVALIDATED
    else:
        assert get_data(person.client.get("/api/me"))["id"] == person.id


def test_logout_during_other_requests_still_ends_the_token(service: Service, accounts: People) -> None:
    person = accounts.new()
    for _ in range(6):
        token = get_data(person.login(service))["token"]
        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(get_me, service, token) for _ in range(4)]
            out = pool.submit(Caller(service.address, token).get, "/api/auth/logout")
            futures += [pool.submit(get_me, service, token) for _ in range(3)]
        assert out.result()["code"] == 200
        assert {future.result()["code"] for future in futures} <= {200, 401}
        assert get_refusal(get_me(service, token)) == INVALIDATED


def test_logout_without_a_token_needs_the_guest_and_changes_nothing(service: Service, admin: Client) -> None:
    assert get_refusal(stranger(service).get("/api/auth/logout")) == GUEST_DISABLED
    with guest(admin) as visitor:
        assert get_data(visitor.get("/api/auth/logout")) is None
        assert get_data(visitor.get("/api/me"))["username"] == "guest"


# The permanent token
def test_the_permanent_token_acts_as_the_administrator_and_survives_logout(service: Service, admin: Client) -> None:
    token = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    holder = Caller(service.address, token)
    assert get_data(holder.get("/api/me"))["role"] == 2
    assert get_data(holder.get("/api/auth/logout")) is None
    assert get_data(holder.get("/api/admin/user/list"))["total"] >= 2
    for text in (token[:-1], token + "x", token.upper(), token.removeprefix("mangrove-")):
        assert get_refusal(get_me(service, text)) == INVALIDATED


def test_an_empty_permanent_token_lets_nobody_in(service: Service, admin: Client) -> None:
    with fixtures.settings(admin, token=""):
        assert get_refusal(stranger(service).get("/api/me")) == GUEST_DISABLED
        assert get_refusal(get_me_with(service, b"")) == GUEST_DISABLED
        assert get_refusal(stranger(service).get("/api/admin/user/list")) == GUEST_DISABLED
