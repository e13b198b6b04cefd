"""Accounts: signing in, and the rules of changing them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyotp
import pytest
from argon2 import PasswordHasher, extract_parameters

from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    Problem,
    RelativePath,
    SecondFactorRequired,
    TooMany,
    Unauthorized,
)
from mangrove.identity import accounts, lockout, names, passwords
from mangrove.identity.accounts import UserFields
from mangrove.identity.rights import ADMIN, GUEST
from mangrove.records import settings, users
from mangrove.records.store import versions
from mangrove.records.store.base import NameTaken
from mangrove.records.users import User

pytestmark = pytest.mark.usefixtures("records")

SECRET = pyotp.random_base32(32)


def fields(**values: Any) -> UserFields:
    blank: dict[str, Any] = {"base_path": "/", "role": 0, "permission": 0, "disabled": False, "sso_id": ""}
    return UserFields(**blank | {"username": "ann", "allow_ldap": True} | values)


def stored(role: int, name: str = "x") -> User:
    return users.create(username=name, password_hash="x", role=role)


def login(password: str, code: str = "", source: str = "1.2.3.4", username: str = "ann") -> str:
    static = passwords.make_static_hash(password)
    return accounts.login(username, static, code, source, users.find)


def test_a_user_signs_in_with_the_password_and_nothing_else() -> None:
    accounts.create(fields(), "secret")
    assert login("secret").count(".") == 2
    for username, password in (("ann", "Secret"), ("ann", ""), ("bob", "secret")):
        with pytest.raises(Unauthorized, match="Invalid username or password"):
            login(password, username=username)
    with pytest.raises(Unauthorized):
        accounts.login("ann", "", "", "1.2.3.4", users.find)


def test_weak_hash_is_replaced_once_at_next_sign_in() -> None:
    user = accounts.create(fields(), "secret")
    static = passwords.make_static_hash("secret")
    weak = PasswordHasher(time_cost=2, memory_cost=8192, parallelism=1).hash(static)
    users.change(user.id, password_hash=weak)
    with pytest.raises(Unauthorized):
        login("wrong")
    assert users.get(user.id).password_hash == weak
    version = versions.get_version()
    for _ in range(2):
        assert login("secret")
        stored = users.get(user.id)
        assert versions.get_version() == version + 1, "other processes learn of it, once"
    assert extract_parameters(stored.password_hash).memory_cost == 19_456
    assert passwords.verify(stored.password_hash, static)
    assert replace(stored, password_hash="") == replace(user, password_hash=""), "sessions go on: pwd_ts is as it was"


def test_a_hash_is_not_replaced_where_the_password_is_another_one_by_now() -> None:
    user = accounts.create(fields(), "secret")
    users.replace_hash(user.id, "that of an old password", "stronger")
    assert users.get(user.id) == user


def test_sign_in_with_weak_hash_works_if_new_hash_cannot_be_stored() -> None:
    user = accounts.create(fields(), "secret")
    hashed = PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(passwords.make_static_hash("secret"))
    weak = replace(user, id=user.id + 1, password_hash=hashed)  # whose record was deleted
    assert accounts.login("ann", passwords.make_static_hash("secret"), "", "1.2.3.4", lambda _: weak)


def test_failures_lock_the_pair_and_a_right_password_does_not_open_it() -> None:
    accounts.create(fields(), "secret")
    for _ in range(lockout.MAX_FAILURES_PER_PAIR):
        with pytest.raises(Unauthorized):
            login("wrong")
    with pytest.raises(TooMany):
        login("secret")
    assert login("secret", source="5.6.7.8")


def test_a_second_factor_is_asked_for_and_its_code_is_good_once() -> None:
    user = accounts.create(fields(), "secret")
    users.change(user.id, otp_secret=SECRET)
    for _ in range(lockout.MAX_FAILURES_PER_PAIR + 1):  # the first step of a sign-in is not a failure
        with pytest.raises(SecondFactorRequired):
            login("secret")
    code = pyotp.TOTP(SECRET).now()
    assert login("secret", code)
    with pytest.raises(SecondFactorRequired):
        login("secret", code)


def test_wrong_codes_lock_the_second_factor() -> None:
    user = accounts.create(fields(), "secret")
    users.change(user.id, otp_secret=SECRET)
    for _ in range(lockout.MAX_FAILURES_PER_PAIR):
        with pytest.raises(SecondFactorRequired):
            login("secret", "no code")
    with pytest.raises(TooMany):
        login("secret", pyotp.TOTP(SECRET).now())


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"role": GUEST}, BadRequest, "admin or guest user can not be created"),
        ({"role": ADMIN}, BadRequest, "admin or guest user can not be created"),
        ({"role": 3}, BadRequest, "there is no such role"),
        ({"permission": -1}, BadRequest, "permission is out of range"),
        ({"permission": accounts.MAX_PERMISSION + 1}, BadRequest, "permission is out of range"),
        ({"username": "a\n"}, BadRequest, "username is too long or has control characters"),
        ({"username": "a" * (names.MAX_NAME_LENGTH + 1)}, BadRequest, "username is too long"),
        ({"base_path": "/a/../.."}, RelativePath, "using relative path is not allowed"),
    ],
)
def test_what_is_no_user_is_not_created(values: dict[str, Any], kind: type[Problem], message: str) -> None:
    with pytest.raises(kind, match=message):
        accounts.create(fields(**values), "secret")
    assert users.all() == []


def test_a_base_path_is_cleaned_and_a_name_is_unique() -> None:
    assert accounts.create(fields(base_path="//team/./a/"), "").base_path == "/team/a"
    with pytest.raises(NameTaken):
        accounts.create(fields(), "")


def test_without_a_password_an_account_is_closed_until_one_is_set() -> None:
    accounts.create(fields(), "")
    with pytest.raises(Unauthorized):
        login("")
    accounts.set_password("ann", "secret")
    assert login("secret")
    with pytest.raises(Problem, match="there is no user bob"):
        accounts.set_password("bob", "secret")


def test_update_replaces_all_fields_but_an_absent_password() -> None:
    user = accounts.create(fields(permission=7, sso_id="s"), "secret")
    changed = accounts.update(user.id, fields(username="bob", base_path="/b"), "")
    assert changed == replace(user, username="bob", base_path="/b", permission=0, sso_id="")
    assert login("secret", username="bob")
    assert accounts.update(user.id, fields(username="bob"), "another").pwd_ts > user.pwd_ts
    assert login("another", username="bob")


def test_a_role_stays_and_the_administrator_is_not_disabled() -> None:
    admin = stored(ADMIN)
    with pytest.raises(BadRequest, match="role can not be changed"):
        accounts.update(admin.id, fields(role=0), "")
    with pytest.raises(BadRequest, match="admin user can not be disabled"):
        accounts.update(admin.id, fields(role=ADMIN, disabled=True), "")
    with pytest.raises(Problem, match="failed get old user: record not found"):
        accounts.update(99, fields(), "")


def test_users_change_themselves_but_for_the_guest() -> None:
    user = accounts.create(fields(permission=7), "secret")
    changed = accounts.update_me(user, "bob", "another", "s")
    assert (changed.username, changed.sso_id, changed.permission) == ("bob", "s", 7)
    assert login("another", username="bob")
    assert accounts.update_me(changed, "bob", "", "").password_hash == changed.password_hash
    with pytest.raises(BadRequest):
        accounts.update_me(changed, "b\0b", "", "")
    with pytest.raises(AccessDenied, match="Guest user can not update profile"):
        accounts.update_me(stored(GUEST), "bob", "", "")


def test_only_normal_users_are_deleted() -> None:
    user = accounts.create(fields(), "")
    for role in (GUEST, ADMIN):
        with pytest.raises(Problem, match="cannot delete admin or guest"):
            accounts.delete(stored(role, f"role {role}").id)
    accounts.delete(user.id)
    assert len(users.all()) == 2
    with pytest.raises(Problem, match="failed get old user: record not found"):
        accounts.delete(user.id)


def test_lookalike_names_are_refused_at_creation_and_rename() -> None:
    user = accounts.create(fields(), "secret")
    other = accounts.create(fields(username="bob"), "secret")
    for name in ("ann ", "\u0430nn", "Ann"):
        with pytest.raises(BadRequest, match="username"):
            accounts.create(fields(username=name), "")
        with pytest.raises(BadRequest, match="username"):
            accounts.update(other.id, fields(username=name), "")
        with pytest.raises(BadRequest, match="username"):
            accounts.update_me(other, name, "", "")
    assert accounts.update(user.id, fields(username="Ann"), "").username == "Ann", "one's own other spelling"
    old = stored(0, "guest ")
    assert accounts.update(old.id, fields(username="guest ", permission=1), "").permission == 1


def test_a_password_that_is_set_has_the_length_that_the_settings_want() -> None:
    user = accounts.create(fields(), "secret")
    settings.save({accounts.MIN_LENGTH: "7"})
    for change in (
        lambda: accounts.create(fields(username="bob"), "secret"),
        lambda: accounts.update(user.id, fields(), "secret"),
        lambda: accounts.update_me(user, "ann", "secret", ""),
        lambda: accounts.set_password("ann", "secret"),
    ):
        with pytest.raises(BadRequest, match="at least 7 characters"):
            change()
    accounts.update(user.id, fields(username="eve"), "")  # one that stays is not measured
    accounts.create(fields(username="bob"), "")  # nor is an unknown one
    settings.save({accounts.MIN_LENGTH: "64"})
    accounts.create(fields(username="carl"), "")


def test_only_of_an_administrator_it_is_noted_that_the_password_is_short() -> None:
    admin = stored(ADMIN)
    assert accounts.update_me(admin, "x", "seven77", "").has_short_password
    assert not accounts.update_me(admin, "x", "eight888", "").has_short_password
    assert not accounts.create(fields(), "short").has_short_password
