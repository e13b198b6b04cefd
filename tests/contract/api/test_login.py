"""Signing in: by password and by hash, what is refused, and the lock-out after failures."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.contract.api.accounts import (
    SECOND_FACTOR,
    WRONG,
    People,
    Person,
    attempt,
    enrol,
    find_id,
    get_data,
    get_me,
    get_refusal,
    make_code,
    make_static_hash,
    make_wrong_code,
    stranger,
)
from tests.support.service import ADMIN_PASSWORD, Service

LOCKED = (
    429,
    "Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.",
)


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


def test_failed_sign_ins_have_the_same_answer(service: Service, someone: Person) -> None:
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
    expected = (400, "username is required")
    assert get_refusal(stranger(service).post(route, password="x")) == expected
    assert get_refusal(stranger(service).post(route, username="", password="x")) == expected


def test_an_empty_login_body_is_eof_and_one_of_other_types_is_a_400(service: Service) -> None:
    nobody = stranger(service)
    assert get_refusal(nobody.envelope(nobody.http.post("/api/auth/login"))) == (400, "the body is empty")
    for body in ({"username": 5}, {"username": "x", "password": ["y"]}, {"username": "x", "otp_code": 123456}, []):
        assert get_refusal(nobody.envelope(nobody.http.post("/api/auth/login", json=body)))[0] == 400


def test_a_password_too_long_to_hash_is_refused_before_it_costs_anything(service: Service) -> None:
    began = time.monotonic()
    answer = stranger(service).post("/api/auth/login", username="admin", password="x" * 4000)
    assert get_refusal(answer)[0] == 400
    assert time.monotonic() - began < 60


def test_sixth_attempt_after_five_failures_is_refused(service: Service, someone: Person) -> None:
    """Even with the right password."""
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
    assert get_refusal(attempt(client, "", "wrong")) == (400, "username is required")


def test_a_missing_code_is_no_failure(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    client = stranger(service)
    assert [get_refusal(attempt(client, person.name, person.password)) for _ in range(7)] == [SECOND_FACTOR] * 7
    assert get_data(attempt(client, person.name, person.password, otp_code=make_code(secret)))["token"]


def test_guessing_codes_is_locked_by_a_count_of_its_own(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    client = stranger(service)
    wrong = make_wrong_code(secret)
    for _ in range(5):
        assert get_refusal(attempt(client, person.name, person.password, otp_code=wrong)) == SECOND_FACTOR
    assert get_refusal(attempt(client, person.name, person.password, otp_code=make_code(secret))) == LOCKED
    assert get_data(attempt(stranger(service), person.name, person.password, otp_code=make_code(secret)))["token"]


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
