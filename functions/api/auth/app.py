"""Signing in and out, the second factor, the current user and their SSH keys."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from mangrove.identity import accounts, keys, otp, passwords, tokens
from mangrove.identity.rights import Caller
from mangrove.problems import BadRequest, Denied, Unauthorized
from mangrove.records import sshkeys, users
from mangrove.site import snapshot
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import RequiredNumber, parse_id, require_fields
from mangrove.web.dialects import RequestDialect
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Anyone, ClientAddress, Visitor

api = Api("auth")


def _login(body: models.LoginReq, static: str, client_address: str) -> Reply:
    require_fields("LoginReq", Username=body.username)
    known = snapshot.latest().users
    return ok({"token": accounts.login(body.username, static, body.otp_code, client_address, known)})


@api.post("/api/auth/login", data_model=models.Token)
def login(who: Anyone, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    return _login(body, passwords.make_static_hash(body.password), client_address)


@api.post("/api/auth/login/hash", data_model=models.Token)
def login_hash(who: Anyone, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    return _login(body, body.password.lower(), client_address)


@api.get("/api/auth/logout")
def logout(who: Visitor, request: Request) -> Reply:
    tokens.revoke(request.headers.get("authorization", ""))
    return ok()


def _refuse_guest(who: Caller) -> None:
    if who.is_guest:
        raise Denied("Guest user can not generate 2FA code")


@api.post("/api/auth/2fa/generate", data_model=models.Enrolment)
def generate(who: Visitor) -> Reply:
    _refuse_guest(who)
    qr, secret = otp.generate(who.user.username)
    return ok({"qr": qr, "secret": secret})


@api.post("/api/auth/2fa/verify")
def verify(who: Visitor, body: models.Verify2FAReq) -> Reply:
    _refuse_guest(who)
    require_fields("Verify2FAReq", Code=body.code, Secret=body.secret)
    otp.check_enrolment(body.code, body.secret)
    users.change(who.user.id, otp_secret=body.secret)
    return ok()


@api.get("/api/me", data_model=models.Me)
async def me(who: Visitor) -> Reply:
    return ok(dialects.format_user(who.user) | {"otp": bool(who.user.otp_secret)})


@api.post("/api/me/update")
def update_me(who: Visitor, body: models.UpdateMeReq) -> Reply:
    if not who.is_guest:
        require_fields("User", Username=body.username)
    accounts.update_me(who.user, body.username, body.password, body.sso_id)
    return ok()


def _require_user(who: Caller) -> int:
    if who.is_guest:
        raise Unauthorized("user invalid")
    return who.user.id


@api.get("/api/me/sshkey/list", data_model=models.Rows[models.SshKeyRow])
def list_keys(who: Visitor, dialect: RequestDialect) -> Reply:
    own = sshkeys.find_by_user(_require_user(who))
    rows: list[dict[str, Any]] = [dialects.format_sshkey(key, dialect) for key in own]
    return ok({"content": rows, "total": len(rows)})


@api.post("/api/me/sshkey/add")
def add_key(who: Visitor, body: models.AddKeyReq) -> Reply:
    owner = _require_user(who)
    if not body.title or not body.key:
        raise BadRequest("request invalid")
    keys.add(owner, body.title, body.key)
    return ok()


@api.post("/api/me/sshkey/delete")
def delete_key(who: Visitor, id: RequiredNumber = "") -> Reply:
    owner = _require_user(who)
    keys.delete_own(owner, parse_id(id, "id format invalid"))
    return ok()


app = api.app
handler = make_lambda_handler(app)
