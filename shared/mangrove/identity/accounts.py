"""Accounts: signing in, and the rules for changing them; see docs/reference/compatibility.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from secrets import token_urlsafe
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    PresentCodeRequired,
    Problem,
    RecordNotFound,
    SecondFactorRequired,
    Unauthorized,
)
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity import app_passwords, lockout, names, otp, passwords, tokens
from mangrove.identity.rights import ADMIN, GUEST, NORMAL
from mangrove.records import settings, share_links, users
from mangrove.records.credentials import AppPassword
from mangrove.records.users import SHORT_PASSWORD, User

MAX_PERMISSION = 0xFFFF
MIN_LENGTH = "min_password_length"  # the setting
FindUser = Callable[[str], User | None]
FindTokens = Callable[[int], Mapping[int, AppPassword]]
NO_USER_ID = 0  # which no user has
RANDOM_PASSWORD_BYTES = 48  # of a password that nobody knows; longer than the setting can require


@dataclass(frozen=True, slots=True)
class UserFields:
    """The fields of a user that an administrator sets, without the password."""

    username: str
    base_path: str
    role: int
    permission: int
    disabled: bool
    sso_id: str
    allow_ldap: bool


def login(username: str, static_hash: str, otp_code: str, source: str, find: FindUser) -> str:
    """Return a session token, or fail as `authenticate` does. Replace the stored hash if it is weak."""
    user = authenticate(username, static_hash, otp_code, source, find)
    _strengthen_hash(user, static_hash)
    return tokens.issue(user)


def open_session(user: User) -> str:
    """Return a session token of a user whose identity is proven without a password. Raise Unauthorized if the account
    is disabled."""
    if user.disabled:
        raise Unauthorized("Current user is disabled, replace please")
    return tokens.issue(user)


def require_present_code(user: User, code: str, source: str) -> None:
    """Use a code of the second factor, if the user has one. Raise PresentCodeRequired, Unauthorized or TooMany."""
    require_code(user, code, source, PresentCodeRequired())


def require_code(user: User, code: str, source: str, refusal: Problem) -> None:
    """Use a code of the second factor, if the user has one. Raise `refusal` for a wrong or missing one, or TooMany."""
    if user.otp_secret:
        _check_second_factor(user, code, source, refusal)


def _strengthen_hash(user: User, static_hash: str) -> None:
    stronger = passwords.strengthen(user.password_hash, static_hash)
    if stronger is None:
        return
    try:
        users.replace_hash(user.id, user.password_hash, stronger)
    except Problem as problem:  # of the records: the sign-in is valid all the same
        log_warning("a password's hash stays weak until the next sign-in", user=user.username, reason=problem.message)


def authenticate(username: str, static_hash: str, otp_code: str, source: str, find: FindUser) -> User:
    """Return the user who signs in. Raise Unauthorized, SecondFactorRequired or TooMany.

    `find` finds a user by name. `static_hash` is the hash of the client; `""` never matches. A missing one-time code is
    the first step of a sign-in and does not count as a failure.
    """
    lockout.ACCOUNTS.check(username, source)
    return _authenticate(find(username), username, static_hash, otp_code, source)


def authenticate_protocol_login(
    username: str, password: str, otp_code: str, source: str, find: FindUser, find_tokens: FindTokens
) -> tuple[User, int | None]:
    """Return the user who signs in and the id of the token, None for the password of the account.

    `find_tokens` returns the tokens of a user, by id. A wrong token takes as long as any wrong password, also for an
    unknown user.
    """
    static_hash = passwords.make_static_hash(password)
    lockout.ACCOUNTS.check(username, source)
    user = find(username)
    id = None
    if app_passwords.is_app_password(password):
        id = app_passwords.find_id(password, find_tokens(user.id if user else NO_USER_ID))
    if user is None or id is None:
        return _authenticate(user, username, static_hash, otp_code, source), None
    lockout.ACCOUNTS.record_success(username, source)
    return user, id


def _authenticate(user: User | None, username: str, static_hash: str, otp_code: str, source: str) -> User:
    is_right = passwords.verify(user.password_hash if user else None, static_hash or "-")
    if user is None or not is_right:
        lockout.ACCOUNTS.record_failure(username, source)
        raise Unauthorized("Invalid username or password")
    if user.otp_secret:
        _check_second_factor(user, otp_code, source, SecondFactorRequired())
    lockout.ACCOUNTS.record_success(username, source)
    return user


def _check_second_factor(user: User, code: str, source: str, refusal: Problem) -> None:
    key = f"otp\n{user.username}"  # no account can have this name
    lockout.ACCOUNTS.check(key, source)
    if not code:
        raise refusal
    if not otp.use_code(user, code):
        lockout.ACCOUNTS.record_failure(key, source)
        raise refusal
    lockout.ACCOUNTS.record_success(key, source)


def set_second_factor(id: int, session: str, code: str, secret: str, present_code: str, source: str) -> None:
    """Switch the second factor of a user on, or replace it. Replacing it needs a code of the current factor.

    The sessions of the user end, except `session`, which is the text of a token. Raise BadRequest unless `code` fits
    `secret`, or Unauthorized, or TooMany.
    """
    user = get(id)
    otp.check_enrolment(code, secret)
    if user.otp_secret:
        _check_second_factor(user, present_code, source, PresentCodeRequired())
    otp.use_enrolment(id, code, secret)
    _change_second_factor(user, secret, session)


def cancel_second_factor(id: int, own_session: str, present_code: str, source: str) -> None:
    """Switch the second factor of a user off. The sessions of the user end.

    `own_session` is the text of the session token if the user makes the request. That session does not end, and a code
    of the factor is required. Raise Unauthorized or TooMany.
    """
    user = get(id)
    if not user.otp_secret:
        return
    if own_session:
        _check_second_factor(user, present_code, source, PresentCodeRequired())
    _change_second_factor(user, "", own_session)


def create_token(user: User, new: app_passwords.NewToken, present_code: str, source: str) -> tuple[AppPassword, str]:
    """Create a token of a user. Return it and its text, which is not stored.

    A token for administration needs an administrator and a code of their second factor. Raise BadRequest, AccessDenied,
    Unauthorized or TooMany.
    """
    new.check()
    if new.is_administrative:
        if user.role != ADMIN:
            raise AccessDenied("You are not an admin")
        if not user.otp_secret:
            raise BadRequest("a token for administration needs a second factor, switch it on first")
        _check_second_factor(user, present_code, source, PresentCodeRequired())
    return app_passwords.add(user.id, new)


def end_sessions(id: int, kept_session: str) -> None:
    """End all sessions of a user, except `kept_session`, which is the text of a token; "" for no exception."""
    user, pwd_ts = get(id), _make_pwd_ts()
    tokens.keep(kept_session, pwd_ts)
    users.change(id, pwd_ts=pwd_ts)
    log_event("the other sessions of a user ended", user=user.username, reason="ended by a person")


def _change_second_factor(user: User, secret: str, kept_session: str) -> None:
    pwd_ts = _make_pwd_ts()
    tokens.keep(kept_session, pwd_ts)
    users.change(user.id, otp_secret=secret, pwd_ts=pwd_ts)
    log_event("the other sessions of a user ended", user=user.username, reason="another second factor")


def get(id: int) -> User:
    """Return a user. Raise RecordNotFound with the message that clients know."""
    try:
        return users.get(id)
    except RecordNotFound:
        raise RecordNotFound("failed get old user: record not found") from None


def create(fields: UserFields, password: str, *, has_sso_link: bool = False) -> User:
    """Create a normal user. Without a password nobody can sign in with one until it is set.

    With `has_sso_link` the user signs in with the identity `sso_id`.
    """
    if fields.role in (GUEST, ADMIN):
        raise BadRequest("admin or guest user can not be created")
    if fields.role != NORMAL:
        raise BadRequest("there is no such role")
    names.check(fields.username)
    return users.create(
        **_clean(fields),
        **_make_password_fields(password or token_urlsafe(RANDOM_PASSWORD_BYTES), NORMAL),
        has_sso_link=has_sso_link,
    )


def update(id: int, fields: UserFields, password: str) -> User:
    """Replace all fields of a user. An empty password keeps the old one and its sessions."""
    user = get(id)
    if fields.role != user.role:
        raise BadRequest("role can not be changed")
    if user.role == ADMIN and fields.disabled:
        raise BadRequest("admin user can not be disabled")
    _check_username(user, fields.username)
    changes = _make_password_fields(password, user.role) if password else {}
    is_linked = user.has_sso_link and fields.sso_id == user.sso_id
    changed = users.change(id, **_clean(fields), **changes, has_sso_link=is_linked)
    _log_new_password(changed, password)
    return changed


def update_me(user: User, username: str, password: str, sso_id: str, *, has_sso_link: bool = False) -> User:
    """Change the name, password and single sign-on id of the caller. A new password ends all sessions."""
    if user.role == GUEST:
        raise AccessDenied("Guest user can not update profile")
    _check_username(user, username)
    changes = _make_password_fields(password, user.role) if password else {}
    changed = users.change(user.id, username=username, sso_id=sso_id, has_sso_link=has_sso_link, **changes)
    _log_new_password(changed, password)
    return changed


def delete(id: int) -> None:
    """Delete a normal user, and the user's share links."""
    if get(id).role in (GUEST, ADMIN):
        raise Problem("cannot delete admin or guest")
    users.delete(id)
    share_links.delete_of(id)


def set_password(username: str, password: str) -> None:
    """Set the password of an account and end its sessions."""
    user = users.find(username)
    if user is None:
        raise Problem(f"there is no user {username}")
    users.change(user.id, **_make_password_fields(password, user.role))


def _make_password_fields(password: str, role: int) -> dict[str, Any]:
    """Return the stored fields of a new password. Raise BadRequest if it is shorter than the setting allows."""
    min_length = int(settings.get_many([MIN_LENGTH]).get(MIN_LENGTH) or 0)
    if len(password) < min_length:
        raise BadRequest(f"a password must have at least {min_length} characters")
    is_short = role == ADMIN and len(password) < SHORT_PASSWORD
    hashed = passwords.hash_password(password)
    return {"password_hash": hashed, "pwd_ts": _make_pwd_ts(), "has_short_password": is_short}


def _make_pwd_ts() -> int:
    return time.time_ns() // 1000


def _log_new_password(user: User, password: str) -> None:
    if password:
        log_event("the sessions of a user ended", user=user.username, reason="another password")


def _clean(fields: UserFields) -> dict[str, Any]:
    """Return the fields of the record with a clean base path. Raise BadRequest."""
    names.check_length(fields.username)
    if not 0 <= fields.permission <= MAX_PERMISSION:
        raise BadRequest("permission is out of range")
    return asdict(fields) | {"base_path": str(TreePath(fields.base_path))}


def _check_username(user: User, username: str) -> None:
    """Raise BadRequest if the new name is not allowed. The current name is always allowed."""
    if username != user.username:
        names.check(username)
