"""Application passwords: what opens a door, and what it is worth elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import pyotp
import pytest

from mangrove.core.problems import BadRequest, Problem, ResourceNotFound, SecondFactorRequired, TooMany, Unauthorized
from mangrove.identity import accounts, app_passwords, lockout, passwords
from mangrove.identity.accounts import UserFields
from mangrove.identity.app_passwords import NewToken
from mangrove.records import users
from mangrove.records.credentials import AppPassword
from mangrove.records.credentials import app_passwords as records
from mangrove.records.store.base import count_calls
from mangrove.records.users import User

pytestmark = pytest.mark.usefixtures("records")
SOURCE = "1.2.3.4"
WRONG = "mgv-" + "a" * 32


def create_user(name: str = "ann") -> User:
    return accounts.create(UserFields(name, "/", 0, 0, False, "", True), "her own password")


def find_tokens(user_id: int) -> Mapping[int, AppPassword]:
    return {password.id: password for password in records.find_by_user(user_id)}


def enter(password: str, name: str = "ann", code: str = "") -> tuple[User, int | None]:
    return accounts.authenticate_protocol_login(name, password, code, SOURCE, users.find, find_tokens)


def test_it_is_told_once_and_only_its_digest_is_kept() -> None:
    first, text = app_passwords.add(7, NewToken("phone"))
    _, other = app_passwords.add(7, NewToken("television"))
    assert app_passwords.is_app_password(text) and text != other
    assert not any(app_passwords.is_app_password(bad) for bad in ("", text[:-1], f"{text}a", text.upper(), f" {text}"))
    assert (first.user_id, first.title, first.added) == (7, "phone", first.last_used)
    assert text not in repr(records.all()) and app_passwords.make_digest(text) == first.digest


def test_it_opens_a_door_to_its_user_alone_and_needs_no_second_factor() -> None:
    ann, bob = create_user(), create_user("bob")
    made, text = app_passwords.add(ann.id, NewToken("phone"))
    users.change(ann.id, otp_secret=pyotp.random_base32(32))
    user, id = enter(text)
    assert (user.id, id) == (ann.id, made.id)
    with pytest.raises(SecondFactorRequired):
        enter("her own password")
    for name in (bob.username, "nobody"):
        with pytest.raises(Unauthorized):
            enter(text, name)
    records.delete_any(made.id)
    with pytest.raises(Unauthorized):
        enter(text)


def test_the_api_takes_none() -> None:
    _, text = app_passwords.add(create_user().id, NewToken("phone"))
    with pytest.raises(Unauthorized):
        accounts.login("ann", passwords.make_static_hash(text), "", SOURCE, users.find)


def test_own_password_that_looks_like_token_signs_in() -> None:
    ann = create_user()
    assert enter("her own password") == (ann, None)
    accounts.set_password("ann", WRONG)
    assert enter(WRONG)[1] is None


def test_wrong_ones_lock_out_as_wrong_passwords_do() -> None:
    _, text = app_passwords.add(create_user().id, NewToken("phone"))
    for _ in range(lockout.MAX_FAILURES_PER_PAIR):
        with pytest.raises(Unauthorized):
            enter(WRONG)
    with pytest.raises(TooMany):
        enter(text)


def test_a_wrong_one_costs_the_same_calls_whether_there_is_such_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    verify = passwords.verify

    def note(stored: str | None, static_hash: str) -> bool:
        hashed.append(stored)
        return verify(stored, static_hash)

    monkeypatch.setattr(passwords, "verify", note)
    ann = create_user()
    user_ids: list[int] = []

    def find(user_id: int) -> Mapping[int, AppPassword]:
        user_ids.append(user_id)
        return find_tokens(user_id)

    for name in ("ann", "nobody"):
        with pytest.raises(Unauthorized):
            accounts.authenticate_protocol_login(name, WRONG, "", SOURCE, users.find, find)
    assert user_ids == [ann.id, accounts.NO_USER_ID] and len(hashed) == 2


def test_titles_are_the_users_own_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    app_passwords.add(7, NewToken("phone"))
    with pytest.raises(Problem, match="application password with the same title already exists"):
        app_passwords.add(7, NewToken("phone"))
    assert app_passwords.add(8, NewToken("phone"))[0].user_id == 8
    monkeypatch.setattr(app_passwords, "MAX_APP_PASSWORDS_PER_USER", 1)
    with pytest.raises(BadRequest, match="at most 1"):
        app_passwords.add(7, NewToken("television"))
    with pytest.raises(BadRequest, match="too long"):
        app_passwords.add(9, NewToken("x" * 256))


def test_only_the_owner_removes_one() -> None:
    made, _ = app_passwords.add(7, NewToken("phone"))
    for user_id, id in ((8, made.id), (7, made.id + 1)):
        with pytest.raises(ResourceNotFound, match="failed to get application password"):
            records.delete_own(user_id, id)
    records.delete_own(7, made.id)
    records.delete_any(made.id)
    assert records.find_by_user(7) == []


def test_finding_those_of_one_user_reads_no_others() -> None:
    for user_id in range(1, 40):
        app_passwords.add(user_id, NewToken("phone"))
    before = count_calls()
    assert [password.user_id for password in records.find_by_user(20)] == [20]
    assert count_calls() - before == 2
