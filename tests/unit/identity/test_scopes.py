"""The scope of a token, and what it leaves of the rights of its owner."""

from __future__ import annotations

import time
from dataclasses import replace

import pyotp
import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, BadRequest, PresentCodeRequired, RelativePath, Unauthorized
from mangrove.identity import accounts, app_passwords
from mangrove.identity.accounts import UserFields
from mangrove.identity.app_passwords import NewToken
from mangrove.identity.rights import ADMIN, CHANGES, Caller, Right
from mangrove.identity.scopes import TokenMode, TokenProtocol, TokenScope, make_scope
from mangrove.records import users
from mangrove.records.credentials import app_passwords as records
from mangrove.records.users import User
from tests.unit.tree import builders

SCOPE = TokenScope(3, TreePath("/a"), TokenMode.BOTH, frozenset({TokenProtocol.API}))
SOURCE = "1.2.3.4"


def make_caller(mode: TokenMode = TokenMode.BOTH, **fields: int) -> Caller:
    return Caller(builders.user(**{"permission": 0xFFFF} | fields), scope=replace(SCOPE, mode=mode))


def create_user() -> User:
    return accounts.create(UserFields("ann", "/", 0, 0, False, "", True), "her own password")


@pytest.mark.parametrize("role", [0, ADMIN])
def test_token_for_reading_has_no_right_to_change(role: int) -> None:
    caller = make_caller(TokenMode.READ, role=role)
    assert [right for right in Right if caller.has(right)] == [right for right in Right if not right & CHANGES]
    assert caller.may_read and not caller.may_change


def test_token_has_no_right_that_its_owner_lacks() -> None:
    caller = make_caller(permission=int(Right.WRITE))
    assert caller.has(Right.WRITE) and not caller.has(Right.DELETE)


def test_token_of_an_administrator_is_no_administrator_unless_made_so() -> None:
    caller = make_caller(role=ADMIN)
    assert not caller.is_admin
    assert replace(caller, scope=replace(SCOPE, is_administrative=True)).is_admin
    assert not Caller(builders.user(role=0), scope=replace(SCOPE, is_administrative=True)).is_admin


def test_root_of_a_token_is_below_the_present_base_path() -> None:
    assert Caller(builders.user(base_path="/home/ann"), scope=SCOPE).base == "/home/ann/a"
    assert Caller(builders.user(base_path="/home/ann")).base == "/home/ann"


def test_scope_is_refused_after_its_end_and_for_other_protocols() -> None:
    SCOPE.require(TokenProtocol.API)
    with pytest.raises(AccessDenied, match="not for webdav"):
        SCOPE.require(TokenProtocol.WEBDAV)
    replace(SCOPE, expires=int(time.time()) + 60).require(TokenProtocol.API)
    with pytest.raises(Unauthorized, match="expired"):
        replace(SCOPE, expires=int(time.time())).require(TokenProtocol.API)


@pytest.mark.usefixtures("records")
def test_old_application_password_is_token_for_webdav_and_sftp() -> None:
    scope = make_scope(app_passwords.add(7, NewToken("phone"))[0])
    assert (scope.folder, scope.mode, scope.is_administrative, scope.expires) == ("/", TokenMode.BOTH, False, 0)
    assert scope.protocols == {TokenProtocol.WEBDAV, TokenProtocol.SFTP}


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "all"}, "mode must be"),
        ({"protocols": ()}, "protocols must be"),
        ({"protocols": ("ftp",)}, "protocols must be"),
        ({"expires": 1}, "in the future"),
        ({"expires": 1 << 60}, "in the future"),
        ({"is_administrative": True}, "for administration is for the API"),
        ({"is_administrative": True, "protocols": ("api",), "folder": "/a"}, "for administration is for the API"),
        ({"is_administrative": True, "protocols": ("api",), "mode": "read"}, "for administration is for the API"),
    ],
)
def test_token_with_an_invalid_scope_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        app_passwords.add(7, replace(NewToken("x"), **fields))  # type: ignore[arg-type]
    with pytest.raises(RelativePath):
        app_passwords.add(7, NewToken("x", folder="../up"))
    assert records.all() == []


@pytest.mark.usefixtures("records")
def test_token_for_administration_needs_a_code_of_an_administrator() -> None:
    new = NewToken("root", protocols=["api"], is_administrative=True)
    with pytest.raises(AccessDenied):
        accounts.create_token(create_user(), new, "", SOURCE)
    admin = users.create(username="admin", password_hash="x", role=ADMIN)
    with pytest.raises(BadRequest, match="second factor"):
        accounts.create_token(admin, new, "", SOURCE)
    secret = pyotp.random_base32(32)
    admin = users.change(admin.id, otp_secret=secret)
    with pytest.raises(PresentCodeRequired):
        accounts.create_token(admin, new, "", SOURCE)
    token, _ = accounts.create_token(admin, new, pyotp.TOTP(secret).now(), SOURCE)
    assert make_scope(token).is_administrative


@pytest.mark.usefixtures("records")
def test_use_of_a_token_is_recorded_at_most_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    token, _ = app_passwords.add(7, NewToken("phone"))
    app_passwords.note_use(token.id)
    assert records.get(token.id) == token
    monkeypatch.setattr(app_passwords, "USE_INTERVAL_SECONDS", 0)
    app_passwords.note_use(token.id)
    assert records.get(token.id).last_used > token.last_used
    app_passwords.note_use(token.id + 1)
