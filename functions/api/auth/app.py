"""Signing in and out, the second factor, and the account of the current user."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from starlette.responses import HTMLResponse, RedirectResponse, Response

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.http import find_client
from mangrove.core.limits import limits
from mangrove.core.problems import AccessDenied, BadRequest, Unauthorized
from mangrove.identity import accounts, app_passwords, directory, keys, otp, passkeys, passwords, sessions, tokens
from mangrove.identity.rights import Caller
from mangrove.identity.single_sign_on import read_link
from mangrove.records.credentials import app_passwords as app_password_records
from mangrove.records.credentials import ssh_keys
from mangrove.records.passkeys import passkeys as passkey_records
from mangrove.tree import audit
from mangrove.tree.audit import AuditAction
from mangrove.web import account_models, flavours, models, sign_in
from mangrove.web.address import find_site_address
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Header, Query, RecordId, Request, parse_id, require_fields, require_in_query
from mangrove.web.gates import AccountOwner, Anyone, ClientAddress, PresentCode, Reader, RequestFlavour
from mangrove.web.sessions import EvictSessionReq, SessionRow, format_sessions, record_refusal, record_session
from mangrove.web.sign_in import SingleSignOnPage

api = Api("auth")


async def _login(request: Request, body: models.LoginReq, static: str, client_address: str) -> Reply:
    require_fields(username=body.username)
    await configuration.get()
    sign_in = partial(accounts.login, body.username, static, body.otp_code, client_address, users.find)
    async with record_refusal(request, body.username, body.otp_code):
        token = await passwords.run_in_turn(client_address, sign_in)
    return ok({"token": await record_session(request, token)})


@api.post("/api/auth/login", data_model=models.Token)
async def login(who: Anyone, request: Request, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    """Sign in with a name and a password; returns a token."""
    return await _login(request, body, passwords.make_static_hash(body.password), client_address)


@api.post("/api/auth/login/hash", data_model=models.Token)
async def login_hash(who: Anyone, request: Request, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    """Sign in with a name and the hash of a password; returns a token."""
    return await _login(request, body, body.password.lower(), client_address)


@api.post("/api/auth/login/ldap", data_model=models.Token)
async def login_ldap(who: Anyone, request: Request, body: models.LoginReq, client_address: ClientAddress) -> Reply:
    """Sign in with a name and password of the directory; returns a token."""
    require_fields(username=body.username)
    settings = (await configuration.get()).settings
    if not settings.ldap_login_enabled:
        raise AccessDenied("ldap is not enabled")
    async with (
        limits().remote_sign_ins.hold(find_client(client_address)),
        record_refusal(request, body.username, body.otp_code),
    ):
        token = await asyncio.to_thread(
            directory.login, settings, body.username, body.password, body.otp_code, client_address
        )
    return ok({"token": await record_session(request, token)})


@api.get("/api/auth/logout")
def logout(who: AccountOwner, request: Request) -> Reply:
    """End the session of the token in the request."""
    tokens.revoke(tokens.read_header(request.headers))
    return ok()


def _refuse_guest(who: Caller) -> None:
    if who.is_guest:
        raise AccessDenied("Guest user can not generate 2FA code")


@api.post("/api/auth/2fa/generate", data_model=models.Enrolment)
def generate(who: AccountOwner) -> Reply:
    """Create a secret for a second factor; `verify` with a code of it switches it on."""
    _refuse_guest(who)
    qr, secret = otp.generate(who.user.username)
    return ok({"qr": qr, "secret": secret})


@api.post("/api/auth/2fa/verify")
def verify(
    who: AccountOwner,
    request: Request,
    body: models.Verify2FAReq,
    present_code: PresentCode,
    client_address: ClientAddress,
) -> Reply:
    """Switch the second factor on, or replace it."""
    _refuse_guest(who)
    require_fields(code=body.code, secret=body.secret)
    session = tokens.read_header(request.headers)
    accounts.set_second_factor(who.user.id, session, body.code, body.secret, present_code, client_address)
    audit.record(who, AuditAction.SECOND_FACTOR_SET)
    return ok()


@api.get("/api/me", data_model=models.Me)
async def me(who: Reader) -> Reply:
    """Return the caller; without a token, the guest."""
    own = {"base_path": who.base, "permission": who.permission, "otp": bool(who.user.otp_secret)}
    return ok(flavours.format_user(who.user) | own)


@api.post("/api/me/update")
async def update_me(who: AccountOwner, body: models.UpdateMeReq, client_address: ClientAddress) -> Reply:
    """Change the caller's own name and password, and link or unlink an identity."""
    if not who.is_guest:
        require_fields(username=body.username)
    sso_id, has_sso_link = await asyncio.to_thread(read_link, who.user, body.sso_id)
    change = partial(accounts.update_me, who.user, body.username, body.password, sso_id, has_sso_link=has_sso_link)
    if body.password:
        await passwords.run_in_turn(client_address, change)
    else:
        await asyncio.to_thread(change)
    await asyncio.to_thread(audit.record, who, AuditAction.ACCOUNT_UPDATE, body.username)
    return ok()


def _require_user(who: Caller) -> int:
    if who.is_guest:
        raise Unauthorized("user invalid")
    return who.user.id


@api.get("/api/me/sessions", data_model=list[SessionRow])
def list_sessions(who: AccountOwner, request: Request) -> Reply:
    """List the caller's open sessions, the last used first."""
    _require_user(who)
    return ok(format_sessions(sessions.list_of(who.user), request))


@api.post("/api/me/sessions/evict")
def evict_session(who: AccountOwner, body: EvictSessionReq) -> Reply:
    """End a session of the caller."""
    _require_user(who)
    require_fields(session_id=body.session_id)
    sessions.end_own(who.user, body.session_id)
    audit.record(who, AuditAction.SESSION_END, who.user.username)
    return ok()


@api.post("/api/me/sessions/evict_others")
def evict_other_sessions(who: AccountOwner, request: Request) -> Reply:
    """End all sessions of the caller except that of this request."""
    accounts.end_sessions(_require_user(who), tokens.read_header(request.headers))
    audit.record(who, AuditAction.SESSIONS_END, who.user.username)
    return ok()


@api.get("/api/me/sshkey/list", data_model=models.Rows[models.SshKeyRow])
def list_keys(who: AccountOwner, flavour: RequestFlavour) -> Reply:
    """List the caller's SSH keys."""
    own = ssh_keys.find_by_user(_require_user(who))
    rows: list[dict[str, Any]] = [flavours.format_sshkey(key, flavour) for key in own]
    return ok({"content": rows, "total": len(rows)})


@api.post("/api/me/sshkey/add")
def add_key(who: AccountOwner, body: models.AddKeyReq) -> Reply:
    """Add an SSH key of the caller."""
    owner = _require_user(who)
    if not body.title or not body.key:
        raise BadRequest("request invalid")
    keys.add(owner, body.title, body.key)
    audit.record(who, AuditAction.SSH_KEY_CREATE, body.title)
    return ok()


@api.post("/api/me/sshkey/delete")
def delete_key(who: AccountOwner, id: RecordId = "") -> Reply:
    """Delete an SSH key of the caller."""
    owner = _require_user(who)
    key_id = parse_id(id, "id format invalid")
    ssh_keys.delete_own(owner, key_id)
    audit.record(who, AuditAction.SSH_KEY_DELETE, f"#{key_id}")
    return ok()


@api.get("/api/me/app_password/list", data_model=models.Rows[models.AppPasswordRow])
def list_app_passwords(who: AccountOwner) -> Reply:
    """List the caller's application passwords, without their texts."""
    own = app_password_records.find_by_user(_require_user(who))
    return ok({"content": [flavours.format_credential(password) for password in own], "total": len(own)})


@api.post("/api/me/app_password/add", data_model=models.NewAppPassword)
def add_app_password(who: AccountOwner, body: models.AddAppPasswordReq) -> Reply:
    """Create an application password of the caller, for WebDAV and SFTP; only this answer has its text."""
    owner = _require_user(who)
    require_fields(title=body.title.strip())
    password, text = app_passwords.add(owner, app_passwords.NewToken(body.title))
    audit.record(who, AuditAction.TOKEN_CREATE, password.title)
    return ok({"id": password.id, "title": password.title, "password": text})


@api.post("/api/me/app_password/delete")
def delete_app_password(who: AccountOwner, id: RecordId = "") -> Reply:
    """Delete an application password of the caller; its sessions end."""
    owner = _require_user(who)
    token_id = parse_id(id, "id format invalid")
    app_password_records.delete_own(owner, token_id)
    audit.record(who, AuditAction.TOKEN_DELETE, f"#{token_id}")
    return ok()


SsoMethod = Annotated[str, require_in_query("`sso_get_token` to sign in, `get_sso_id` to link an identity.")]


@api.get("/api/auth/sso", response_class=RedirectResponse, status_code=302)
async def single_sign_on(who: Anyone, request: Request, method: SsoMethod = "") -> Response:
    """Redirect to the identity provider."""
    return await sign_in.begin_single_sign_on(request, method)


@api.get("/api/auth/sso_callback", response_class=HTMLResponse)
async def sso_callback(who: Anyone, page: SingleSignOnPage) -> Response:
    """Finish a sign-in; the page posts `token` or `sso_id` to the window of this site that opened it."""
    return page


@api.get("/api/auth/sso_get_token", response_class=HTMLResponse)
async def sso_get_token(who: Anyone, page: SingleSignOnPage) -> Response:
    """Finish a sign-in in compatibility mode; the page keeps the token and opens the front end."""
    return page


@api.get("/api/auth/get_sso_id", response_class=HTMLResponse)
async def get_sso_id(who: Anyone, page: SingleSignOnPage) -> Response:
    """Identify a user in compatibility mode; the page opens the profile with a proof that links the identity once."""
    return page


PasskeySession = Annotated[str, Header(max_length=128, description="The `session` of the request that began.")]
PasskeyUser = Annotated[
    str, Query(max_length=255, description="User of the passkey; empty for the user it belongs to.")
]
PasskeyTitle = Annotated[str, Query(max_length=255, description="A name for the passkey; empty for one with a number.")]


@api.get("/api/authn/webauthn_begin_login", data_model=sign_in.PasskeyChallenge)
async def begin_passkey_login(
    who: Anyone, request: Request, client_address: ClientAddress, username: PasskeyUser = ""
) -> Reply:
    """Begin a sign-in with a passkey. The answer is the same for every user."""
    party = await _find_relying_party(request)
    options, session = await asyncio.to_thread(passkeys.begin_login, party, client_address)
    return ok({"options": options, "session": session})


@api.post("/api/authn/webauthn_finish_login", data_model=models.Token)
async def finish_passkey_login(
    who: Anyone,
    request: Request,
    body: sign_in.AssertionReq,
    client_address: ClientAddress,
    session: PasskeySession = "",
    username: PasskeyUser = "",
) -> Reply:
    """Sign in with a passkey, which counts as both factors; returns a token."""
    party, credential = await _find_relying_party(request), body.model_dump(by_alias=True)
    sign_in = partial(passkeys.finish_login, party, session, credential, username, client_address)
    async with record_refusal(request, username):
        token = await passwords.run_in_turn(client_address, sign_in)
    return ok({"token": await record_session(request, token)})


@api.get("/api/authn/webauthn_begin_registration", data_model=sign_in.PasskeyChallenge)
async def begin_passkey_registration(
    who: AccountOwner, request: Request, present_code: PresentCode, client_address: ClientAddress
) -> Reply:
    """Begin the registration of a passkey; a user with a second factor needs a current code of it."""
    _require_user(who)
    party = await _find_relying_party(request)
    await asyncio.to_thread(accounts.require_present_code, who.user, present_code, client_address)
    options, session = await asyncio.to_thread(passkeys.begin_registration, who.user, party, client_address)
    return ok({"options": options, "session": session})


@api.post("/api/authn/webauthn_finish_registration")
async def finish_passkey_registration(
    who: AccountOwner,
    request: Request,
    body: sign_in.AttestationReq,
    session: PasskeySession = "",
    title: PasskeyTitle = "",
) -> Reply:
    """Register the passkey that an authenticator made."""
    _require_user(who)
    party, credential = await _find_relying_party(request), body.model_dump(by_alias=True)
    await asyncio.to_thread(passkeys.finish_registration, who.user, party, session, credential, title)
    await asyncio.to_thread(audit.record, who, AuditAction.PASSKEY_CREATE, title)
    return ok("Registered Successfully")


@api.post("/api/authn/delete_authn")
def delete_passkey(who: AccountOwner, body: sign_in.DeletePasskeyReq) -> Reply:
    """Delete a passkey of the caller."""
    passkeys.delete_own(_require_user(who), body.id)
    audit.record(who, AuditAction.PASSKEY_DELETE)
    return ok("Deleted Successfully")


@api.get("/api/authn/getcredentials", data_model=list[sign_in.PasskeyRow])
def list_passkeys(who: AccountOwner) -> Reply:
    """List the passkeys of the caller."""
    own = passkey_records.find_by_user(_require_user(who))
    return ok([flavours.format_passkey(passkey) for passkey in own])


async def _find_relying_party(request: Request) -> passkeys.RelyingParty:
    """Return the site as the relying party of passkeys. Raise AccessDenied if passkeys are off."""
    settings = (await configuration.get()).settings
    if not settings.webauthn_login_enabled:
        raise AccessDenied("WebAuthn is not enabled")
    return passkeys.make_relying_party(await find_site_address(request), settings.site_title)


@api.get("/api/me/token/list", data_model=models.Rows[account_models.TokenRow])
def list_tokens(who: AccountOwner) -> Reply:
    """List the caller's tokens, without their texts."""
    own = app_password_records.find_by_user(_require_user(who))
    return ok({"content": [account_models.format_token(token) for token in own], "total": len(own)})


@api.post("/api/me/token/create", data_model=account_models.NewTokenRow)
def create_token(
    who: AccountOwner, body: account_models.TokenReq, present_code: PresentCode, client_address: ClientAddress
) -> Reply:
    """Create a token of the caller with a scope; only this answer has its text."""
    _require_user(who)
    require_fields(title=body.title.strip())
    token, text = accounts.create_token(who.user, body.make_token(), present_code, client_address)
    audit.record(who, AuditAction.TOKEN_CREATE, token.title)
    return ok(account_models.format_token(token) | {"token": text})


@api.post("/api/me/token/delete")
def delete_token(who: AccountOwner, id: RecordId = "") -> Reply:
    """Delete a token of the caller; its sessions end, and its tasks fail."""
    owner = _require_user(who)
    token_id = parse_id(id, "id format invalid")
    app_password_records.delete_own(owner, token_id)
    audit.record(who, AuditAction.TOKEN_DELETE, f"#{token_id}")
    return ok()


app = api.app
handler = make_lambda_handler(app)
