"""Sign-ins without a password: their bodies and answers, and single sign-on over HTTP, with the page that hands its
result to the front end."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from html import escape
from typing import Annotated, Any

import orjson
from pydantic import ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core.http import find_client
from mangrove.core.limits import limits
from mangrove.core.problems import AccessDenied, BadRequest
from mangrove.identity import single_sign_on
from mangrove.web.address import find_client_address, find_site_address
from mangrove.web.framework import Body, Depends, Model, Query, Request
from mangrove.web.models import AddedTime, LastUsedTime, Text, Title
from mangrove.web.sessions import record_refusal, record_session

COOKIE = "mangrove_sso"
CALLBACK = "/api/auth/sso_callback"
_COOKIE_FORM = re.compile(r"[\w-]{43}")
SCRIPT = """
const data = document.body.dataset
const answer = JSON.parse(data.answer)
if (data.compatible !== 'true' && window.opener) {
  window.opener.postMessage(answer, location.origin)
  window.close()
} else if (answer.token) {
  if (data.compatible === 'true') localStorage.setItem('token', answer.token)
  else sessionStorage.setItem('mangrove.token', answer.token)
  location.replace('/')
} else {
  location.replace('/@manage?' + new URLSearchParams(answer))
}
"""
"""Hands the answer to the window that opened this one, which has to be of our origin; without one, to the front end
that comes next. A token never stands in an address; what links an identity is used once."""
PAGE = (
    '<!doctype html><meta charset="utf-8"><title>{title}</title><body data-answer="{answer}" data-compatible="{mode}">'
)
_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": f"default-src 'none'; script-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "unsafe-none",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
MAX_CREDENTIAL_CHARACTERS = 16_384  # of one part of a credential, in Base64url


class CredentialPart(Body):
    model_config = ConfigDict(populate_by_name=True)


class AuthenticatorParts(CredentialPart):
    client_data: str = Field(
        "", alias="clientDataJSON", max_length=MAX_CREDENTIAL_CHARACTERS, description="Client data, in Base64url."
    )


class AttestationParts(AuthenticatorParts):
    attestation: str = Field(
        "",
        alias="attestationObject",
        max_length=MAX_CREDENTIAL_CHARACTERS,
        description="The attestation object, in Base64url.",
    )


class AssertionParts(AuthenticatorParts):
    authenticator_data: str = Field(
        "",
        alias="authenticatorData",
        max_length=MAX_CREDENTIAL_CHARACTERS,
        description="Data of the authenticator, in Base64url.",
    )
    signature: str = Field("", max_length=MAX_CREDENTIAL_CHARACTERS, description="The signature, in Base64url.")
    user_handle: str = Field("", alias="userHandle", max_length=128, description="User handle, in Base64url.")


class CredentialReq(CredentialPart):
    id: Text = Field("", description="Id of the credential, in Base64url.")
    raw_id: Text = Field("", alias="rawId", description="The same as `id`.")
    type: Text = Field("", description="`public-key`.")


class AttestationReq(CredentialReq):
    response: AttestationParts = Field(
        default_factory=AttestationParts, description="Result of `navigator.credentials.create`."
    )


class AssertionReq(CredentialReq):
    response: AssertionParts = Field(
        default_factory=AssertionParts, description="Result of `navigator.credentials.get`."
    )


class DeletePasskeyReq(Body):
    id: Text = Field("", description="Id of the credential, in Base64.")


class PasskeyChallenge(Model):
    options: dict[str, Any] = Field(description="The options of `navigator.credentials`, with bytes in Base64url.")
    session: str = Field(description="To be sent in the header `session` of the request that finishes.")


class PasskeyRow(Model):
    id: str = Field(description="Id of the credential, in Base64.")
    fingerprint: str = Field(description="Model of the authenticator (AAGUID), as hexadecimal bytes.")
    title: Title
    added_time: AddedTime
    last_used_time: LastUsedTime


async def begin_single_sign_on(request: Request, method: str) -> Response:
    """Redirect to the identity provider. Raise AccessDenied if single sign-on is off, or BadRequest."""
    settings = await _require_settings()
    if method not in single_sign_on.METHODS:
        raise BadRequest("no method provided")
    site, source = await find_site_address(request), await find_client_address(request)
    browser = _read_cookie(request) or secrets.token_urlsafe(32)
    callback = f"/api/auth/{method}" if settings.sso_compatibility_mode else CALLBACK
    async with limits().remote_sign_ins.hold(find_client(source)):
        url = await single_sign_on.begin(settings, method, f"{site}{callback}", browser, source)
    answer = RedirectResponse(url, status_code=302, headers={"cache-control": "no-store"})
    answer.set_cookie(
        COOKIE, browser, max_age=single_sign_on.STATE_SECONDS, path="/", secure=site.startswith("https:"),
        httponly=True, samesite="lax",
    )  # fmt: skip
    return answer


AuthorizationCode = Annotated[str, Query(max_length=4096, description="Code of the identity provider.")]
State = Annotated[str, Query(max_length=256, description="The state with which the sign-in began.")]
Issuer = Annotated[str, Query(max_length=1024, description="Issuer, if the identity provider names it.")]
ProviderError = Annotated[str, Query(max_length=1024, description="Why the identity provider refuses.")]


async def finish_single_sign_on(
    request: Request,
    code: AuthorizationCode = "",
    state: State = "",
    iss: Issuer = "",
    error: ProviderError = "",
) -> Response:
    """Return the page that hands the result to the front end. The address of the request is that of the callback."""
    settings = await _require_settings()
    site, source = await find_site_address(request), await find_client_address(request)
    redirect_uri = f"{site}{request.scope['path']}"
    callback = single_sign_on.Callback(code, state, iss, error, _read_cookie(request), redirect_uri)
    async with limits().remote_sign_ins.hold(find_client(source)), record_refusal(request, ""):
        answer = await single_sign_on.finish(settings, callback, source)
    if "token" in answer:
        await record_session(request, answer["token"])
    return _make_page(settings, answer)


SingleSignOnPage = Annotated[Response, Depends(finish_single_sign_on)]


async def _require_settings() -> Settings:
    settings = (await configuration.get()).settings
    if not settings.sso_login_enabled:
        raise AccessDenied("Single sign-on is not enabled")
    return settings


def _read_cookie(request: Request) -> str:
    """Return the secret of the browser; "" if it has none."""
    value = request.cookies.get(COOKIE, "")
    return value if _COOKIE_FORM.fullmatch(value) else ""


def _make_page(settings: Settings, answer: dict[str, Any]) -> Response:
    head = PAGE.format(
        title=escape(settings.site_title),
        answer=escape(orjson.dumps(answer).decode(), quote=True),
        mode="true" if settings.sso_compatibility_mode else "false",
    )
    return HTMLResponse(f"{head}<script>{SCRIPT}</script>", headers=HEADERS)
