"""Stolen sessions and codes: what they can do to the second factor of their owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyotp
import pytest

from tests.contract.api.accounts import (
    INVALIDATED,
    SECOND_FACTOR,
    Caller,
    People,
    Person,
    enrol,
    get_data,
    get_me,
    get_refusal,
    make_code,
    make_wrong_code,
)
from tests.support.service import Client, Service, run_forked

CODE_REQUIRED = (401, "a present code of the second factor is needed, in the header Otp-Code")
SESSION_ENDED = (401, "Password has been changed, login please")


@pytest.fixture
def accounts(service: Service, admin: Client) -> Iterator[People]:
    made = People(service, admin)
    yield made
    made.close()


def verify(client: Client, secret: str, code: str, present_code: str = "") -> dict[str, object]:
    """Ask to have `secret` as the second factor from now on."""
    headers = {"otp-code": present_code} if present_code else {}
    body = {"code": code, "secret": secret}
    return client.envelope(client.http.post("/api/auth/2fa/verify", json=body, headers=headers))


def another_session(service: Service, person: Person, code: str = "") -> Caller:
    return Caller(service.address, get_data(person.login(service, otp_code=code))["token"])


def test_stolen_session_cannot_replace_second_factor(service: Service, accounts: People) -> None:
    person = accounts.new()
    old, new = enrol(person), pyotp.random_base32(32)
    spent = make_code(old)
    thief = another_session(service, person, spent)
    assert get_refusal(verify(thief, new, make_code(new))) == CODE_REQUIRED
    assert get_refusal(verify(thief, new, make_code(new), make_wrong_code(old))) == CODE_REQUIRED
    assert get_refusal(verify(thief, new, make_code(new), spent)) == CODE_REQUIRED, "a spent code is none"
    assert get_data(person.login(service, otp_code=make_code(old, 1)))["token"], "the old factor is still on"


def test_the_owner_replaces_the_second_factor_with_a_present_code(service: Service, accounts: People) -> None:
    person = accounts.new()
    old, new = enrol(person), pyotp.random_base32(32)
    assert get_data(verify(person.client, new, make_code(new), make_code(old))) is None
    assert get_data(person.client.get("/api/me"))["otp"] is True
    assert get_refusal(person.login(service, otp_code=make_code(old, 1))) == SECOND_FACTOR
    assert get_data(person.login(service, otp_code=make_code(new, 1)))["token"]


def test_guessing_present_codes_is_locked(accounts: People) -> None:
    person = accounts.new()
    wrong, new = make_wrong_code(enrol(person)), pyotp.random_base32(32)
    codes = [verify(person.client, new, make_code(new), wrong)["code"] for _ in range(6)]
    assert codes == [401] * 5 + [429]


def test_the_code_of_the_enrolment_is_spent(service: Service, accounts: People) -> None:
    person, secret = accounts.new(), pyotp.random_base32(32)
    code = make_code(secret)
    get_data(verify(person.client, secret, code))
    assert get_refusal(person.login(service, otp_code=code)) == SECOND_FACTOR
    assert get_data(person.login(service, otp_code=make_code(secret, 1)))["token"]


def test_the_other_sessions_end_when_a_second_factor_is_set_or_replaced(service: Service, accounts: People) -> None:
    person = accounts.new()
    stolen = another_session(service, person)
    old, new = enrol(person), pyotp.random_base32(32)
    assert get_refusal(stolen.get("/api/me")) == SESSION_ENDED
    assert get_data(person.client.get("/api/me"))["otp"] is True
    stolen = another_session(service, person, make_code(old))
    get_data(verify(person.client, new, make_code(new), make_code(old, 1)))
    assert get_refusal(stolen.get("/api/me")) == SESSION_ENDED
    assert get_data(person.client.get("/api/me"))["otp"] is True
    get_data(person.client.get("/api/auth/logout"))
    assert get_refusal(person.client.get("/api/me")) == INVALIDATED


def test_all_sessions_end_when_the_administrator_removes_the_second_factor(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    enrol(person)
    get_data(admin.post("/api/admin/user/cancel_2fa", params={"id": person.id}))
    assert get_refusal(person.client.get("/api/me")) == SESSION_ENDED
    assert get_data(person.login(service))["token"]
    assert get_data(admin.get("/api/me"))["otp"] is False


def test_stolen_admin_session_cannot_remove_own_second_factor(tmp_path: Path) -> None:
    """A new second factor ends the other sessions of its user, so this administrator has a service of their own."""
    with run_forked(tmp_path / "data") as service:
        admin = service.client()
        own = {"id": get_data(admin.get("/api/me"))["id"]}
        secret = pyotp.random_base32(32)
        get_data(verify(admin, secret, make_code(secret, -1, 12)))
        assert get_refusal(admin.post("/api/admin/user/cancel_2fa", params=own)) == CODE_REQUIRED
        assert get_data(admin.get("/api/me"))["otp"] is True
        code = {"code": make_code(secret)}
        assert get_data(admin.post("/api/admin/user/cancel_2fa", params=own | code)) is None
        assert get_data(admin.get("/api/me"))["otp"] is False


def test_a_new_password_of_ones_own_ends_all_sessions_and_the_log_says_so(service: Service, accounts: People) -> None:
    person = accounts.new()
    stolen = another_session(service, person)
    get_data(person.client.post("/api/me/update", username=person.name, password="another one"))
    assert get_refusal(stolen.get("/api/me")) == SESSION_ENDED
    assert get_data(person.login(service, "another one"))["token"]
    lines = service.data.with_name(f"{service.data.name}.log").read_text().splitlines()
    told = [line for line in lines if person.name in line and "the sessions of a user ended" in line]
    assert len(told) == 1 and "another password" in told[0]
    assert get_refusal(get_me(service, stolen.token)) == SESSION_ENDED
