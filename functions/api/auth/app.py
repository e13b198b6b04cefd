"""Signing in and out, the second factor, the current user, their SSH keys and application passwords."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.problems import AccessDenied, BadRequest, Unauthorized
from mangrove.identity import accounts, app_passwords, keys, otp, passwords, tokens
from mangrove.identity.rights import Caller
from mangrove.records.accounts import app_passwords as app_password_records
from mangrove.records.accounts import sshkeys
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import RequiredNumber, parse_id, require_fields
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Request
from mangrove.web.gates import Anyone, PresentCode, Visitor
from mangrove.web.parameters import ClientAddress, RequestDialect

api = Api("auth")


async def _login(body: models.LoginReq, static: str, client_address: str) -> Reply:
    require_fields(username=body.username)
    await configuration.get()
    sign_in = partial(accounts.login, body.username, static, body.otp_code, client_address, users.find)
    return ok({"token": await passwords.run_in_turn(client_address, sign_in)})


@api.post("/api/auth/login", data_model=models.Token)
async def login(who: Anyone, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    """Sign in with a name and a password; the answer is a token."""
    return await _login(body, passwords.make_static_hash(body.password), client_address)


@api.post("/api/auth/login/hash", data_model=models.Token)
async def login_hash(who: Anyone, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    """Sign in with a name and the hash of a password; the answer is a token."""
    return await _login(body, body.password.lower(), client_address)


@api.get("/api/auth/logout")
def logout(who: Visitor, request: Request) -> Reply:
    """End the session of the token that is sent."""
    tokens.revoke(tokens.read_header(request.headers))
    return ok()


def _refuse_guest(who: Caller) -> None:
    if who.is_guest:
        raise AccessDenied("Guest user can not generate 2FA code")


@api.post("/api/auth/2fa/generate", data_model=models.Enrolment)
def generate(who: Visitor) -> Reply:
    """A new secret for a second factor; it counts once `verify` was asked with a code of it."""
    _refuse_guest(who)
    qr, secret = otp.generate(who.user.username)
    return ok({"qr": qr, "secret": secret})


@api.post("/api/auth/2fa/verify")
def verify(
    who: Visitor, request: Request, body: models.Verify2FAReq, present_code: PresentCode, client_address: ClientAddress
) -> Reply:
    """Switch the second factor on, or replace it."""
    _refuse_guest(who)
    require_fields(code=body.code, secret=body.secret)
    session = tokens.read_header(request.headers)
    accounts.set_second_factor(who.user.id, session, body.code, body.secret, present_code, client_address)
    return ok()


@api.get("/api/me", data_model=models.Me)
async def me(who: Visitor) -> Reply:
    """Who the caller is; the guest without a token."""
    return ok(dialects.format_user(who.user) | {"otp": bool(who.user.otp_secret)})


@api.post("/api/me/update")
async def update_me(who: Visitor, body: models.UpdateMeReq, client_address: ClientAddress) -> Reply:
    """Change the caller's own name and password."""
    if not who.is_guest:
        require_fields(username=body.username)
    change = partial(accounts.update_me, who.user, body.username, body.password, body.sso_id)
    if body.password:
        await passwords.run_in_turn(client_address, change)
    else:
        await asyncio.to_thread(change)
    return ok()


def _require_user(who: Caller) -> int:
    if who.is_guest:
        raise Unauthorized("user invalid")
    return who.user.id


@api.get("/api/me/sshkey/list", data_model=models.Rows[models.SshKeyRow])
def list_keys(who: Visitor, dialect: RequestDialect) -> Reply:
    """The caller's SSH keys."""
    own = sshkeys.find_by_user(_require_user(who))
    rows: list[dict[str, Any]] = [dialects.format_sshkey(key, dialect) for key in own]
    return ok({"content": rows, "total": len(rows)})


@api.post("/api/me/sshkey/add")
def add_key(who: Visitor, body: models.AddKeyReq) -> Reply:
    """Add an SSH key of the caller."""
    owner = _require_user(who)
    if not body.title or not body.key:
        raise BadRequest("request invalid")
    keys.add(owner, body.title, body.key)
    return ok()


@api.post("/api/me/sshkey/delete")
def delete_key(who: Visitor, id: RequiredNumber = "") -> Reply:
    """Remove an SSH key of the caller."""
    owner = _require_user(who)
    keys.delete_own(owner, parse_id(id, "id format invalid"))
    return ok()


@api.get("/api/me/app_password/list", data_model=models.Rows[models.AppPasswordRow])
def list_app_passwords(who: Visitor) -> Reply:
    """The caller's application passwords; what they are was said once."""
    own = app_password_records.find_by_user(_require_user(who))
    return ok({"content": [dialects.format_app_password(one) for one in own], "total": len(own)})


@api.post("/api/me/app_password/add", data_model=models.NewAppPassword)
def add_app_password(who: Visitor, body: models.AddAppPasswordReq) -> Reply:
    """Make an application password of the caller, for WebDAV and SFTP; the answer alone says what it is."""
    owner = _require_user(who)
    require_fields(title=body.title.strip())
    made, text = app_passwords.add(owner, body.title)
    return ok({"id": made.id, "title": made.title, "password": text})


@api.post("/api/me/app_password/delete")
def delete_app_password(who: Visitor, id: RequiredNumber = "") -> Reply:
    """Remove an application password of the caller; whoever is signed in with it is signed out."""
    owner = _require_user(who)
    app_passwords.delete_own(owner, parse_id(id, "id format invalid"))
    return ok()


app = api.app
handler = make_lambda_handler(app)
