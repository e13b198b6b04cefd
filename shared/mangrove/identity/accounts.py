"""Accounts: signing in, and the rules of changing them (behaviour 2.4, 2.8, 8.1)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from secrets import token_urlsafe
from typing import Any

from mangrove.identity import lockout, otp, passwords, tokens
from mangrove.identity.rights import ADMIN, GUEST, NORMAL
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Denied, Problem, SecondFactorRequired, Unauthorized
from mangrove.records import users
from mangrove.records.base import RecordMissing
from mangrove.records.users import User

MAX_PERMISSION = 0xFFFF
MAX_USERNAME_LENGTH = 255  # characters


@dataclass(frozen=True, slots=True)
class UserFields:
    """What an administrator sets of a user, beside the password."""

    username: str
    base_path: str
    role: int
    permission: int
    disabled: bool
    sso_id: str
    allow_ldap: bool


def login(username: str, static_hash: str, otp_code: str, source: str, users_by_name: Mapping[str, User]) -> str:
    """A session token; Unauthorized, SecondFactorRequired or TooMany.

    `static_hash` is the client's hash, `""` never matches. A missing one-time code is the first step of an ordinary
    sign-in and does not count as a failure.
    """
    lockout.check(username, source)
    user = users_by_name.get(username)
    is_right = passwords.verify(user.password_hash if user else None, static_hash or "-")
    if user is None or not is_right:
        lockout.record_failure(username, source)
        raise Unauthorized("Invalid username or password")
    if user.otp_secret:
        _check_second_factor(user, otp_code, source)
    lockout.record_success(username, source)
    return tokens.issue(user)


def _check_second_factor(user: User, code: str, source: str) -> None:
    key = f"otp\n{user.username}"  # a name that no account can have
    lockout.check(key, source)
    if not code:
        raise SecondFactorRequired
    if not otp.use_code(user, code):
        lockout.record_failure(key, source)
        raise SecondFactorRequired
    lockout.record_success(key, source)


def get(id: int) -> User:
    """One user; Problem in the words clients know."""
    try:
        return users.get(id)
    except RecordMissing:
        raise Problem("failed get old user: record not found") from None


def create(fields: UserFields, password: str) -> User:
    """A new normal user. Without a password no one can sign in with the account until one is set."""
    if fields.role in (GUEST, ADMIN):
        raise BadRequest("admin or guest user can not be created")
    if fields.role != NORMAL:
        raise BadRequest("there is no such role")
    return users.create(**_clean(fields), **_make_password_fields(password or token_urlsafe()))


def update(id: int, fields: UserFields, password: str) -> User:
    """Replace all of a user; an empty password keeps the old one and its sessions."""
    user = get(id)
    if fields.role != user.role:
        raise BadRequest("role can not be changed")
    if user.role == ADMIN and fields.disabled:
        raise BadRequest("admin user can not be disabled")
    return users.change(id, **_clean(fields), **(_make_password_fields(password) if password else {}))


def update_me(user: User, username: str, password: str, sso_id: str) -> User:
    """Change the user's own name, password and single sign-on id."""
    if user.role == GUEST:
        raise Denied("Guest user can not update profile")
    _check_username(username)
    changes = _make_password_fields(password) if password else {}
    return users.change(user.id, username=username, sso_id=sso_id, **changes)


def delete(id: int) -> None:
    """Remove a normal user."""
    if get(id).role in (GUEST, ADMIN):
        raise Problem("cannot delete admin or guest")
    users.delete(id)


def set_password(username: str, password: str) -> None:
    """Give an account another password; its sessions end."""
    user = next((one for one in users.all() if one.username == username), None)
    if user is None:
        raise Problem(f"there is no user {username}")
    users.change(user.id, **_make_password_fields(password))


def _make_password_fields(password: str) -> dict[str, Any]:
    return {"password_hash": passwords.hash_password(password), "pwd_ts": time.time_ns() // 1000}


def _clean(fields: UserFields) -> dict[str, Any]:
    """The fields of the record, with a clean base path; BadRequest."""
    _check_username(fields.username)
    if not 0 <= fields.permission <= MAX_PERMISSION:
        raise BadRequest("permission is out of range")
    return asdict(fields) | {"base_path": str(TreePath(fields.base_path))}


def _check_username(username: str) -> None:
    if len(username) > MAX_USERNAME_LENGTH or any(ord(letter) < 32 for letter in username):
        raise BadRequest("username is too long or has control characters")
