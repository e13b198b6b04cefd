"""Signing in and out, tokens and attacks on them, the second factor, the lock-out, one's own account and keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import jwt
import pyotp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from PIL import Image

from tests.contract.api import fixtures
from tests.contract.api.accounts import (
    GUEST_DISABLED,
    NOT_ADMIN,
    Caller,
    People,
    Person,
    find_id,
    get_data,
    get_refusal,
    guest,
    make_static_hash,
    stranger,
)
from tests.service import ADMIN_PASSWORD, Client, Service

WRONG = (401, "Invalid username or password")
SECOND_FACTOR = (402, "Invalid 2FA code")
INVALIDATED = (401, "token is invalidated")
PASSWORD_CHANGED = (401, "Password has been changed, login please")
LOCKED = (
    429,
    "Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.",
)


@pytest.fixture
def accounts(service: Service, admin: Client) -> Iterator[People]:
    accounts = People(service, admin)
    yield accounts
    accounts.close()


@pytest.fixture(scope="module")
def someone(service: Service, admin: Client) -> Iterator[Person]:
    """One user for all tests here that leave the account as it is."""
    accounts = People(service, admin)
    yield accounts.new()
    accounts.close()


def get_me(service: Service, token: str) -> dict[str, Any]:
    return Caller(service.address, token).get("/api/me")


def format_required(field: str) -> str:
    kind, name = field.split(".")
    return f"Key: '{kind}.{name}' Error:Field validation for '{name}' failed on the 'required' tag"


# Signing in


def test_login_answers_a_token_and_nothing_else(service: Service, someone: Person) -> None:
    data = get_data(someone.login(service))
    assert set(data) == {"token"}
    assert get_data(get_me(service, data["token"]))["username"] == someone.name


def test_the_static_hash_is_the_one_clients_compute() -> None:
    assert make_static_hash("admin") == "6fcb57cd10b2c11d765dcf16148d99130afd895082af83725ee8bb181b1d2b0f"


def test_login_with_the_hash_opens_the_same_account(service: Service, someone: Person) -> None:
    answer = stranger(service).post(
        "/api/auth/login/hash", username=someone.name, password=make_static_hash(someone.password)
    )
    assert get_data(get_me(service, get_data(answer)["token"]))["id"] == someone.id


def test_the_hash_is_no_password_and_the_password_no_hash(service: Service, someone: Person) -> None:
    assert get_refusal(someone.login(service, make_static_hash(someone.password))) == WRONG
    plain = stranger(service).post("/api/auth/login/hash", username=someone.name, password=someone.password)
    assert get_refusal(plain) == WRONG


def test_wrong_password_empty_password_and_unknown_user_cannot_be_told_apart(service: Service, someone: Person) -> None:
    for route in ("/api/auth/login", "/api/auth/login/hash"):
        for name, password in ((someone.name, "wrong"), (someone.name, ""), (uuid4().hex, "wrong"), (uuid4().hex, "")):
            assert get_refusal(stranger(service).post(route, username=name, password=password)) == WRONG


def test_an_account_without_a_password_is_opened_by_nothing(service: Service, accounts: People) -> None:
    name = uuid4().hex
    accounts.admin.ok("/api/admin/user/create", username=name, password="", base_path="/", role=0)
    accounts.ids.append(find_id(accounts.admin, name))
    for route in ("/api/auth/login", "/api/auth/login/hash"):
        for body in ({"password": ""}, {"password": make_static_hash("")}):
            assert get_refusal(stranger(service).post(route, username=name, **body)) == WRONG


def test_user_names_are_compared_exactly(service: Service, someone: Person) -> None:
    for name in (someone.name.upper(), f" {someone.name}", f"{someone.name}\0", f"{someone.name}\n"):
        answer = stranger(service).post("/api/auth/login", username=name, password=someone.password)
        assert get_refusal(answer) == WRONG


@pytest.mark.parametrize("route", ["/api/auth/login", "/api/auth/login/hash"])
def test_a_login_without_a_user_name_is_a_400(service: Service, route: str) -> None:
    expected = (400, format_required("LoginReq.Username"))
    assert get_refusal(stranger(service).post(route, password="x")) == expected
    assert get_refusal(stranger(service).post(route, username="", password="x")) == expected


def test_an_empty_login_body_is_eof_and_one_of_other_types_is_a_400(service: Service) -> None:
    nobody = stranger(service)
    assert get_refusal(nobody.envelope(nobody.http.post("/api/auth/login"))) == (400, "EOF")
    for body in ({"username": 5}, {"username": "x", "password": ["y"]}, {"username": "x", "otp_code": 123456}, []):
        assert get_refusal(nobody.envelope(nobody.http.post("/api/auth/login", json=body)))[0] == 400


def test_a_password_too_long_to_hash_is_refused_before_it_costs_anything(service: Service) -> None:
    began = time.monotonic()
    answer = stranger(service).post("/api/auth/login", username="admin", password="x" * 4000)
    assert get_refusal(answer)[0] == 400
    assert time.monotonic() - began < 2


# Tokens


def derive_secret(service: Service, purpose: bytes = b"jwt") -> bytes:
    """The key that signs tokens, derived anew from the file of the data directory."""
    return HKDF(SHA256(), 32, salt=None, info=purpose).derive((service.data / "key").read_bytes())


def read_claims(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def test_a_token_is_a_jwt_of_48_hours_that_names_the_user_and_tells_no_secret(
    service: Service, someone: Person
) -> None:
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


def test_a_token_behind_a_scheme_is_refused(service: Service, admin: Client) -> None:
    permanent = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    for scheme in ("Bearer", "bearer", "Token", "JWT"):
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
    end = int(time.time()) + 2
    token = jwt.encode(claims | {"exp": end}, derive_secret(service), "HS256")
    assert get_data(get_me(service, token))["username"] == claims["username"]
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
            asked = [pool.submit(get_me, service, token) for _ in range(4)]
            out = pool.submit(Caller(service.address, token).get, "/api/auth/logout")
            asked += [pool.submit(get_me, service, token) for _ in range(3)]
        assert out.result()["code"] == 200
        assert {one.result()["code"] for one in asked} <= {200, 401}
        assert get_refusal(get_me(service, token)) == INVALIDATED


def test_logout_without_a_token_needs_the_guest_and_changes_nothing(service: Service, admin: Client) -> None:
    assert get_refusal(stranger(service).get("/api/auth/logout")) == GUEST_DISABLED
    with guest(admin) as visitor:
        assert get_data(visitor.get("/api/auth/logout")) is None
        assert get_data(visitor.get("/api/me"))["username"] == "guest"


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


def test_disabling_a_user_ends_his_access_at_once_and_enabling_gives_it_back(
    service: Service, admin: Client, accounts: People
) -> None:
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
    assert person.client.post("/api/fs/list", path=folder)["message"].endswith("object not found")


# The second factor


def enrol(person: Person) -> str:
    """Switch the second factor on, with the code of the step before; the secret."""
    found = get_data(person.client.post("/api/auth/2fa/generate"))["secret"]
    get_data(person.client.post("/api/auth/2fa/verify", code=make_code(found, -1), secret=found))
    return str(found)


def make_code(found: str, steps: int = 0) -> str:
    """The code of a time step near now; waits when the step is about to end."""
    left = 30 - time.time() % 30
    if left < 2:
        time.sleep(left)
    return pyotp.TOTP(found).at(int(time.time()) + 30 * steps)


def make_wrong_code(found: str) -> str:
    right = {pyotp.TOTP(found).at(int(time.time()) + 30 * step) for step in range(-3, 4)}
    return next(text for text in ("000000", "111111", "222222", "333333", "444444") if text not in right)


def test_generate_offers_a_secret_and_its_picture_and_stores_nothing(service: Service, accounts: People) -> None:
    person = accounts.new()
    first, second = (get_data(person.client.post("/api/auth/2fa/generate")) for _ in range(2))
    assert set(first) == {"qr", "secret"}
    assert re.fullmatch("[A-Z2-7]{32}", first["secret"])
    assert first["secret"] != second["secret"]
    kind, _, picture = first["qr"].partition(",")
    assert kind == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(picture, validate=True)))
    assert image.format == "PNG" and min(image.size) >= 400
    assert get_data(person.client.get("/api/me"))["otp"] is False
    assert get_data(person.login(service))["token"]


def test_enrolment_needs_a_code_that_fits_the_secret(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = pyotp.random_base32(32)
    for text in (
        make_wrong_code(found),
        make_code(found) + "0",
        make_code(found)[:5],
        "abcdef",
        make_code(found, 5),
        make_code(found, -5),
    ):
        answer = person.client.post("/api/auth/2fa/verify", code=text, secret=found)
        assert get_refusal(answer) == (400, "Invalid 2FA code")
    for body, lines in (
        ({"secret": found}, ["Code"]),
        ({"code": "123456"}, ["Secret"]),
        ({}, ["Code", "Secret"]),
    ):
        expected = (400, "\n".join(format_required(f"Verify2FAReq.{name}") for name in lines))
        assert get_refusal(person.client.post("/api/auth/2fa/verify", **body)) == expected
    assert get_data(person.client.get("/api/me"))["otp"] is False


def test_enrolment_refuses_a_secret_that_is_none(accounts: People) -> None:
    client = accounts.new().client
    for weak in ("A", "AAAA", "MFRGG===", "not base32 at all!", "1" * 32, "A" * 4000):
        try:
            text = pyotp.TOTP(weak).now()
        except ValueError:
            text = "123456"
        assert client.post("/api/auth/2fa/verify", code=text, secret=weak)["code"] == 400
    assert get_data(client.get("/api/me"))["otp"] is False


def test_login_with_a_second_factor_asks_for_the_code_with_402(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    assert get_data(person.client.get("/api/me"))["otp"] is True
    assert get_refusal(person.login(service)) == SECOND_FACTOR
    assert get_refusal(person.login(service, otp_code="")) == SECOND_FACTOR
    assert get_refusal(person.login(service, otp_code=make_wrong_code(found))) == SECOND_FACTOR
    token = get_data(person.login(service, otp_code=make_code(found)))["token"]
    assert get_data(get_me(service, token))["otp"] is True


def test_the_hash_login_asks_for_the_code_too(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    body = {"username": person.name, "password": make_static_hash(person.password)}
    assert get_refusal(stranger(service).post("/api/auth/login/hash", **body)) == SECOND_FACTOR
    assert get_data(stranger(service).post("/api/auth/login/hash", **body, otp_code=make_code(found)))["token"]


def test_a_wrong_password_is_told_before_the_code_is_looked_at(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    right = make_code(found)
    assert get_refusal(person.login(service, "wrong", otp_code=right)) == WRONG
    assert get_data(person.login(service, otp_code=right))["token"]


def test_a_code_is_good_once(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    spent = make_code(found)
    assert get_data(person.login(service, otp_code=spent))["token"]
    assert get_refusal(person.login(service, otp_code=spent)) == SECOND_FACTOR
    assert get_data(person.login(service, otp_code=make_code(found, 1)))["token"]
    assert get_refusal(person.login(service, otp_code=spent)) == SECOND_FACTOR


def test_of_many_logins_with_one_code_at_the_same_time_one_gets_in(service: Service, accounts: People) -> None:
    person = accounts.new()
    spent = make_code(enrol(person))
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: person.login(service, otp_code=spent), range(6)))
    assert sorted(answer["code"] for answer in answers) == [200] + [402] * 5


def test_codes_are_taken_from_one_step_around_now_and_no_further(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    for step in (-3, -2, 2, 3):
        assert get_refusal(person.login(service, otp_code=make_code(found, step))) == SECOND_FACTOR
    for step in (0, 1):
        assert get_data(person.login(service, otp_code=make_code(found, step)))["token"]


def test_the_administrator_cancels_a_second_factor(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    enrol(person)
    assert get_refusal(person.client.post("/api/admin/user/cancel_2fa", params={"id": person.id})) == NOT_ADMIN
    assert get_data(admin.post("/api/admin/user/cancel_2fa", params={"id": person.id})) is None
    assert get_data(person.client.get("/api/me"))["otp"] is False
    assert get_data(person.login(service))["token"]
    assert get_data(admin.post("/api/admin/user/cancel_2fa", params={"id": person.id})) is None
    missing = admin.post("/api/admin/user/cancel_2fa", params={"id": 10**9})
    assert get_refusal(missing) == (500, "failed get old user: record not found")


def test_an_update_by_the_administrator_or_oneself_keeps_the_second_factor(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    enrol(person)
    get_data(admin.post("/api/admin/user/update", **person.row(admin)))
    get_data(person.client.post("/api/me/update", username=person.name, password="another one"))
    assert get_refusal(person.login(service, "another one")) == SECOND_FACTOR


def test_the_secret_is_in_no_answer_after_enrolment(admin: Client, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    for text in (person.client.http.get("/api/me").text, admin.http.get("/api/admin/user/list").text):
        assert found not in text
    assert "otp" not in person.row(admin)


# The lock-out


def attempt(client: Client, name: str, password: str, **body: str) -> dict[str, Any]:
    return client.post("/api/auth/login", username=name, password=password, **body)


def test_the_sixth_attempt_after_five_failures_is_refused_whatever_its_password(
    service: Service, someone: Person
) -> None:
    client = stranger(service)
    assert [get_refusal(attempt(client, someone.name, "wrong")) for _ in range(5)] == [WRONG] * 5
    assert get_refusal(attempt(client, someone.name, someone.password)) == LOCKED
    assert get_refusal(attempt(client, someone.name, "wrong")) == LOCKED
    hashed = client.post("/api/auth/login/hash", username=someone.name, password=make_static_hash(someone.password))
    assert get_refusal(hashed) == LOCKED


def test_both_logins_share_one_count(service: Service, someone: Person) -> None:
    client = stranger(service)
    for _ in range(3):
        get_refusal(attempt(client, someone.name, "wrong"))
    for _ in range(2):
        get_refusal(client.post("/api/auth/login/hash", username=someone.name, password=make_static_hash("wrong")))
    assert get_refusal(attempt(client, someone.name, someone.password)) == LOCKED


def test_a_lock_holds_for_one_account_from_one_source_only(service: Service, accounts: People) -> None:
    victim, other = accounts.new(), accounts.new()
    attacker = stranger(service)
    for _ in range(6):
        get_refusal(attempt(attacker, victim.name, "wrong"))
    assert get_refusal(attempt(attacker, victim.name, victim.password)) == LOCKED
    assert get_data(attempt(attacker, other.name, other.password))["token"]
    assert get_data(attempt(stranger(service), victim.name, victim.password))["token"]
    assert get_refusal(attempt(attacker, victim.name, victim.password)) == LOCKED
    assert get_data(victim.client.get("/api/me"))["id"] == victim.id


def test_a_header_cannot_pretend_another_source(service: Service, someone: Person) -> None:
    client = stranger(service)
    codes = []
    for number in range(7):
        for header in ("x-forwarded-for", "x-real-ip", "client-ip", "x-client-ip", "true-client-ip"):
            client.http.headers[header] = f"10.9.8.{number}"
        client.http.headers["forwarded"] = f"for=10.9.8.{number}"
        codes.append(attempt(client, someone.name, "wrong")["code"])
    assert codes == [401] * 5 + [429] * 2
    assert get_refusal(attempt(client, someone.name, someone.password)) == LOCKED


def test_a_header_cannot_lock_somebody_elses_source(service: Service, someone: Person) -> None:
    victim = stranger(service)
    attacker = stranger(service, **{"x-forwarded-for": victim.source, "x-real-ip": victim.source})
    for _ in range(6):
        get_refusal(attempt(attacker, someone.name, "wrong"))
    assert get_data(attempt(victim, someone.name, someone.password))["token"]


def test_a_success_forgets_the_failures_before_it(service: Service, someone: Person) -> None:
    client = stranger(service)
    for _ in range(2):
        assert [get_refusal(attempt(client, someone.name, "wrong")) for _ in range(4)] == [WRONG] * 4
        assert get_data(attempt(client, someone.name, someone.password))["token"]


def test_an_unknown_account_is_locked_like_a_known_one(service: Service) -> None:
    client, name = stranger(service), uuid4().hex
    assert [attempt(client, name, "wrong")["code"] for _ in range(6)] == [401] * 5 + [429]


def test_guessing_across_accounts_locks_the_source(service: Service) -> None:
    client = stranger(service)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(13):
            list(pool.map(lambda _: attempt(client, uuid4().hex, "wrong"), range(4)))
    assert get_refusal(attempt(client, "admin", ADMIN_PASSWORD)) == LOCKED
    assert get_data(attempt(stranger(service), "admin", ADMIN_PASSWORD))["token"]


def test_a_missing_user_name_is_told_even_while_locked(service: Service, someone: Person) -> None:
    client = stranger(service)
    for _ in range(6):
        get_refusal(attempt(client, someone.name, "wrong"))
    assert get_refusal(attempt(client, "", "wrong")) == (400, format_required("LoginReq.Username"))


def test_a_missing_code_is_no_failure(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    client = stranger(service)
    assert [get_refusal(attempt(client, person.name, person.password)) for _ in range(7)] == [SECOND_FACTOR] * 7
    assert get_data(attempt(client, person.name, person.password, otp_code=make_code(found)))["token"]


def test_guessing_codes_is_locked_by_a_count_of_its_own(service: Service, accounts: People) -> None:
    person = accounts.new()
    found = enrol(person)
    client = stranger(service)
    wrong = make_wrong_code(found)
    for _ in range(5):
        assert get_refusal(attempt(client, person.name, person.password, otp_code=wrong)) == SECOND_FACTOR
    assert get_refusal(attempt(client, person.name, person.password, otp_code=make_code(found))) == LOCKED
    assert get_data(attempt(stranger(service), person.name, person.password, otp_code=make_code(found)))["token"]


def test_an_account_of_a_crafted_name_cannot_clear_the_count_of_codes(service: Service, accounts: People) -> None:
    person = accounts.new()
    wrong = make_wrong_code(enrol(person))
    helper = accounts.new(username=f"otp#{person.name}")
    client = stranger(service)
    codes = []
    for _ in range(3):
        codes += [attempt(client, person.name, person.password, otp_code=wrong)["code"] for _ in range(3)]
        get_data(attempt(client, f"otp#{person.name}", helper.password))
    assert codes == [402] * 5 + [429] * 4


def test_guesses_at_the_same_time_get_no_more_tries(service: Service, someone: Person) -> None:
    client = stranger(service)
    with ThreadPoolExecutor(12) as pool:
        codes = list(pool.map(lambda _: attempt(client, someone.name, "wrong")["code"], range(24)))
    assert codes.count(401) <= 5
    assert get_refusal(attempt(client, someone.name, someone.password)) == LOCKED


# The guest


def test_without_a_token_and_with_the_guest_disabled_every_door_for_users_is_shut(service: Service) -> None:
    nobody = stranger(service)
    operations = nobody.http.get("/openapi.json").json()["paths"]
    shut, open_ = {}, set()
    for path, methods in operations.items():
        for method, operation in methods.items():
            if not path.startswith("/api/"):
                continue
            answer = nobody.envelope(nobody.http.request(method, path, content=b"{"))
            if operation["x-gate"] == "anyone":
                open_.add(path)
            else:
                shut[f"{method} {path}"] = (answer["code"], answer["message"])
    assert len(shut) > 30
    assert {where: got for where, got in shut.items() if got != GUEST_DISABLED} == {}
    assert all(path.startswith(("/api/public/", "/api/auth/login")) for path in open_), open_


def test_the_enabled_guest_is_a_user_of_role_1_without_a_token(service: Service, admin: Client, folder: str) -> None:
    with guest(admin) as visitor:
        row = get_data(visitor.get("/api/me"))
        assert (row["username"], row["role"], row["permission"], row["otp"]) == ("guest", 1, 0, False)
        assert visitor.names(folder) == []
        assert get_refusal(visitor.post("/api/fs/mkdir", path=f"{folder}/x")) == (403, "permission denied")
        assert get_refusal(visitor.get("/api/admin/user/list")) == NOT_ADMIN
        assert get_refusal(visitor.post("/api/fs/link", path=folder)) == NOT_ADMIN
    assert get_refusal(stranger(service).post("/api/fs/list", path=folder)) == GUEST_DISABLED


def test_the_guest_has_no_profile_no_second_factor_and_no_keys(admin: Client) -> None:
    with guest(admin, permission=0xFFFF) as visitor:
        no_2fa = (403, "Guest user can not generate 2FA code")
        assert get_refusal(visitor.post("/api/auth/2fa/generate")) == no_2fa
        assert get_refusal(visitor.post("/api/auth/2fa/verify", code="123456", secret="A" * 32)) == no_2fa
        assert get_refusal(visitor.post("/api/me/update", username="guest", password="mine")) == (
            403,
            "Guest user can not update profile",
        )
        assert get_refusal(visitor.post("/api/me/update")) == (403, "Guest user can not update profile")
        for answer in (
            visitor.get("/api/me/sshkey/list"),
            visitor.post("/api/me/sshkey/add", title="t", key="k"),
            visitor.post("/api/me/sshkey/delete", params={"id": 1}),
        ):
            assert get_refusal(answer) == (401, "user invalid")


def test_the_guest_is_confined_to_his_base_path(admin: Client, folder: str) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/open/inner")
    admin.ok("/api/fs/mkdir", path=f"{folder}/shut")
    with guest(admin, base_path=f"{folder}/open") as visitor:
        assert visitor.names("/") == ["inner"]
        assert visitor.post("/api/fs/list", path="/../shut")["code"] == 403
        assert visitor.post("/api/fs/list", path=f"{folder}/shut")["code"] == 500


def test_a_garbage_token_does_not_fall_back_to_the_guest(service: Service, admin: Client) -> None:
    with guest(admin):
        assert get_refusal(get_me(service, "garbage")) == INVALIDATED


def test_the_guest_signed_in_by_password_is_as_shut_out_as_without(service: Service, admin: Client) -> None:
    answer = attempt(stranger(service), "guest", "guest")
    token = get_data(answer)["token"]
    assert get_refusal(get_me(service, token))[0] == 401
    with guest(admin):
        assert get_refusal(Caller(service.address, token).post("/api/auth/2fa/generate"))[0] == 403
        assert get_refusal(Caller(service.address, token).get("/api/admin/user/list")) == NOT_ADMIN


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
    assert get_refusal(person.client.post("/api/me/update", password="x")) == (400, format_required("User.Username"))
    for name in (other.name, "admin", "guest"):
        assert get_refusal(person.client.post("/api/me/update", username=name)) == (
            500,
            "constraint failed: UNIQUE constraint failed: x_users.username (2067)",
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
    assert [one["fingerprint"] for one in existing] == [fingerprint]
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
    assert get_refusal(thief.post("/api/admin/user/sshkey/delete", params={"id": id})) == NOT_ADMIN
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
