"""Accounts: signing in, and the rules of changing them; see docs/reference/compatibility.md."""

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
from mangrove.records import settings, users
from mangrove.records.users import SHORT_PASSWORD, User

MAX_PERMISSION = 0xFFFF
MIN_LENGTH = "min_password_length"  # the setting
FindUser = Callable[[str], User | None]
FindDigests = Callable[[int], Mapping[int, str]]
NOBODY = 0  # the id of no user
MADE_UP_BYTES = 48  # of a password that nobody knows: as long as any that the setting can ask for


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


def login(username: str, static_hash: str, otp_code: str, source: str, find: FindUser) -> str:
    """A session token; fails as `authenticate` does. A password whose stored hash is weak gets one of today's."""
    user = authenticate(username, static_hash, otp_code, source, find)
    _strengthen_hash(user, static_hash)
    return tokens.issue(user)


def _strengthen_hash(user: User, static_hash: str) -> None:
    stronger = passwords.strengthen(user.password_hash, static_hash)
    if stronger is None:
        return
    try:
        users.replace_hash(user.id, user.password_hash, stronger)
    except Problem as problem:  # of the records: whoever signed in is right all the same, and will sign in again
        log_warning("a password's hash stays weak until the next sign-in", user=user.username, reason=problem.message)


def authenticate(username: str, static_hash: str, otp_code: str, source: str, find: FindUser) -> User:
    """Who signs in; Unauthorized, SecondFactorRequired or TooMany.

    `find` finds a user by name. `static_hash` is the client's hash, `""` never matches. A missing one-time code is the
    first step of an ordinary sign-in and does not count as a failure.
    """
    lockout.ACCOUNTS.check(username, source)
    return _authenticate(find(username), username, static_hash, otp_code, source)


def authenticate_protocol_login(
    username: str, password: str, otp_code: str, source: str, find: FindUser, find_digests: FindDigests
) -> tuple[User, int | None]:
    """Who signs in with an application password, and its id; or with the account's own as `authenticate`, and None.

    `find_digests`: the digests of a user's application passwords, by id. What has the form of one and is none costs
    what any wrong password does, also where there is no such user.
    """
    static_hash = passwords.make_static_hash(password)
    lockout.ACCOUNTS.check(username, source)
    user = find(username)
    id = None
    if app_passwords.is_app_password(password):
        id = app_passwords.find_id(password, find_digests(user.id if user else NOBODY))
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
    key = f"otp\n{user.username}"  # a name that no account can have
    lockout.ACCOUNTS.check(key, source)
    if not code:
        raise refusal
    if not otp.use_code(user, code):
        lockout.ACCOUNTS.record_failure(key, source)
        raise refusal
    lockout.ACCOUNTS.record_success(key, source)


def set_second_factor(id: int, session: str, code: str, secret: str, present_code: str, source: str) -> None:
    """Switch a user's second factor on, or replace it, which takes a code of the one that is on.

    BadRequest unless `code` fits `secret`, Unauthorized, TooMany. The user's sessions end but for `session`, the text
    of a token.
    """
    user = get(id)
    otp.check_enrolment(code, secret)
    if user.otp_secret:
        _check_second_factor(user, present_code, source, PresentCodeRequired())
    otp.use_enrolment(id, code, secret)
    _change_second_factor(user, secret, session)


def cancel_second_factor(id: int, own_session: str, present_code: str, source: str) -> None:
    """Switch a user's second factor off; the user's sessions end.

    `own_session`: the text of the token with which users ask for themselves. It goes on, and a code of the factor is
    needed: Unauthorized, TooMany.
    """
    user = get(id)
    if not user.otp_secret:
        return
    if own_session:
        _check_second_factor(user, present_code, source, PresentCodeRequired())
    _change_second_factor(user, "", own_session)


def _change_second_factor(user: User, secret: str, kept_session: str) -> None:
    pwd_ts = _make_pwd_ts()
    tokens.keep(kept_session, pwd_ts)
    users.change(user.id, otp_secret=secret, pwd_ts=pwd_ts)
    log_event("the other sessions of a user ended", user=user.username, reason="another second factor")


def get(id: int) -> User:
    """One user; Problem in the words clients know."""
    try:
        return users.get(id)
    except RecordNotFound:
        raise RecordNotFound("failed get old user: record not found") from None


def create(fields: UserFields, password: str) -> User:
    """A new normal user. Without a password no one can sign in with the account until one is set."""
    if fields.role in (GUEST, ADMIN):
        raise BadRequest("admin or guest user can not be created")
    if fields.role != NORMAL:
        raise BadRequest("there is no such role")
    names.check(fields.username)
    return users.create(**_clean(fields), **_make_password_fields(password or token_urlsafe(MADE_UP_BYTES), NORMAL))


def update(id: int, fields: UserFields, password: str) -> User:
    """Replace all of a user; an empty password keeps the old one and its sessions."""
    user = get(id)
    if fields.role != user.role:
        raise BadRequest("role can not be changed")
    if user.role == ADMIN and fields.disabled:
        raise BadRequest("admin user can not be disabled")
    _check_username(user, fields.username)
    changed = users.change(id, **_clean(fields), **(_make_password_fields(password, user.role) if password else {}))
    _log_new_password(changed, password)
    return changed


def update_me(user: User, username: str, password: str, sso_id: str) -> User:
    """Change the user's own name, password and single sign-on id; with a new password all sessions end."""
    if user.role == GUEST:
        raise AccessDenied("Guest user can not update profile")
    _check_username(user, username)
    changes = _make_password_fields(password, user.role) if password else {}
    changed = users.change(user.id, username=username, sso_id=sso_id, **changes)
    _log_new_password(changed, password)
    return changed


def delete(id: int) -> None:
    """Remove a normal user."""
    if get(id).role in (GUEST, ADMIN):
        raise Problem("cannot delete admin or guest")
    users.delete(id)


def set_password(username: str, password: str) -> None:
    """Give an account another password; its sessions end."""
    user = users.find(username)
    if user is None:
        raise Problem(f"there is no user {username}")
    users.change(user.id, **_make_password_fields(password, user.role))


def _make_password_fields(password: str, role: int) -> dict[str, Any]:
    """What is stored of a new password; BadRequest when it is shorter than the settings want it."""
    shortest = int(settings.get_many([MIN_LENGTH]).get(MIN_LENGTH) or 0)
    if len(password) < shortest:
        raise BadRequest(f"a password must have at least {shortest} characters")
    is_noted = role == ADMIN and len(password) < SHORT_PASSWORD
    hashed = passwords.hash_password(password)
    return {"password_hash": hashed, "pwd_ts": _make_pwd_ts(), "has_short_password": is_noted}


def _make_pwd_ts() -> int:
    return time.time_ns() // 1000


def _log_new_password(user: User, password: str) -> None:
    if password:
        log_event("the sessions of a user ended", user=user.username, reason="another password")


def _clean(fields: UserFields) -> dict[str, Any]:
    """The fields of the record, with a clean base path; BadRequest."""
    names.check_length(fields.username)
    if not 0 <= fields.permission <= MAX_PERMISSION:
        raise BadRequest("permission is out of range")
    return asdict(fields) | {"base_path": str(TreePath(fields.base_path))}


def _check_username(user: User, username: str) -> None:
    """BadRequest when a user may not be called so from now on; the name they have stays theirs."""
    if username != user.username:
        names.check(username)
