"""Accounts: signing in, and the rules of changing them (behaviour 2.4, 2.8, 8.1)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any

from mangrove.identity import lockout, otp, passwords, tokens
from mangrove.identity.rights import ADMIN, GUEST, NORMAL
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Denied, Problem, SecondFactorRequired, Unauthorized
from mangrove.records import users
from mangrove.records.base import RecordMissing
from mangrove.records.users import User

MOST_PERMISSION = 0xFFFF


def login(username: str, static: str, otp_code: str, source: str, known: Mapping[str, User]) -> str:
    """A session token; Unauthorized, SecondFactorRequired or TooMany.

    `static` is the client's hash, `""` never matches. A missing one-time code is the first step of the normal
    way and does not count as a failure.
    """
    lockout.check(username, source)
    user = known.get(username)
    right = passwords.matches(user.password_hash if user else None, static or "-")
    if user is None or not right:
        lockout.failed(username, source)
        raise Unauthorized("Invalid username or password")
    if user.otp_secret:
        _second_factor(user, otp_code, source)
    lockout.succeeded(username, source)
    return tokens.issue(user)


def _second_factor(user: User, code: str, source: str) -> None:
    key = f"otp\n{user.username}"  # a name that no account can have
    lockout.check(key, source)
    if not code:
        raise SecondFactorRequired
    if not otp.spend(user, code):
        lockout.failed(key, source)
        raise SecondFactorRequired
    lockout.succeeded(key, source)


def get(id: int) -> User:
    """One user; Problem in the words clients know."""
    try:
        return users.get(id)
    except RecordMissing:
        raise Problem("failed get old user: record not found") from None


def create(fields: dict[str, Any], password: str) -> User:
    """A new normal user. Without a password nobody can sign in as him until one is set."""
    if fields["role"] in (GUEST, ADMIN):
        raise BadRequest("admin or guest user can not be created")
    if fields["role"] != NORMAL:
        raise BadRequest("there is no such role")
    return users.create(**_checked(fields), **_password(password or token_urlsafe()))


def update(id: int, fields: dict[str, Any], password: str) -> User:
    """Replace all of a user; an empty password keeps the old one and its sessions."""
    user = get(id)
    if fields["role"] != user.role:
        raise BadRequest("role can not be changed")
    if user.role == ADMIN and fields["disabled"]:
        raise BadRequest("admin user can not be disabled")
    return users.change(id, **_checked(fields), **(_password(password) if password else {}))


def update_me(user: User, username: str, password: str, sso_id: str) -> User:
    """Change one's own name, password and single sign-on id."""
    if user.role == GUEST:
        raise Denied("Guest user can not update profile")
    _named(username)
    return users.change(user.id, username=username, sso_id=sso_id, **(_password(password) if password else {}))


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
    users.change(user.id, **_password(password))


def _password(password: str) -> dict[str, Any]:
    static = passwords.static(password)
    return {"password_hash": passwords.stored(static), "pwd_ts": time.time_ns() // 1000}


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    _named(fields["username"])
    if not 0 <= fields["permission"] <= MOST_PERMISSION:
        raise BadRequest("permission is out of range")
    return fields | {"base_path": str(TreePath(fields["base_path"]))}


def _named(username: str) -> None:
    if len(username) > 255 or any(ord(letter) < 32 for letter in username):
        raise BadRequest("username is too long or has control characters")
