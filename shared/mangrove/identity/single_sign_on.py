"""Single sign-on: the authorization code flow with PKCE, state and nonce, and the accounts of identities.

An account belongs to an identity if it was created for it, or if its user linked it while signed in. Equal names or
e-mail addresses do not link the two.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from mangrove.core.problems import BadRequest, Unauthorized
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity import accounts, lockout, names
from mangrove.identity import identity_providers as providers
from mangrove.identity.claims import apply_admin_claim, apply_group_claim
from mangrove.identity.identity_providers import Identity, Provider, SsoSettings
from mangrove.identity.rights import NORMAL
from mangrove.records import login_challenges, users
from mangrove.records.store.base import NameTaken
from mangrove.records.users import User

GET_TOKEN, GET_ID = METHODS = ("sso_get_token", "get_sso_id")
STATE_SECONDS = 600  # for the sign-in at the provider
LINK_SECONDS = 600
MAX_NAME_ATTEMPTS = 20  # ann, ann-2 … ann-20
STATE, LINK = "single sign-on", "identity to link"  # purposes of challenges
LINK_PREFIX = "link-"
SUBJECT = "single sign-on\n"  # the subject of the lock-out; no account can have this name
SCOPES = {"Github": "read:user"}
DEFAULT_SCOPES = "openid profile email"


@dataclass(frozen=True, slots=True)
class Callback:
    """The answer of a provider, as the browser brings it."""

    code: str
    state: str
    issuer: str
    """"" if the answer does not name it."""
    error: str
    browser: str
    """The cookie of the browser."""
    redirect_uri: str
    """The address that the browser was sent to."""


async def begin(settings: SsoSettings, method: str, redirect_uri: str, browser: str, source: str) -> str:
    """Return the address at the provider where the user signs in. Raise BadRequest, Unreachable or TooMany.

    `browser` is a secret in a cookie: only the browser that began the sign-in can finish it.
    """
    provider = await providers.discover(settings)
    verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
    data = {
        "method": method, "issuer": provider.issuer, "client": settings.sso_client_id, "nonce": nonce,
        "verifier": verifier, "browser": browser, "redirect_uri": redirect_uri,
    }  # fmt: skip
    state = await asyncio.to_thread(login_challenges.issue, STATE, data, STATE_SECONDS, source)
    scopes = [SCOPES.get(settings.sso_login_platform, DEFAULT_SCOPES), *settings.sso_extra_scopes.split()]
    query = {
        "response_type": "code", "client_id": settings.sso_client_id, "redirect_uri": redirect_uri,
        "scope": " ".join(scopes), "state": state, "nonce": nonce, "code_challenge": _make_challenge(verifier),
        "code_challenge_method": "S256",
    }  # fmt: skip
    joint = "&" if "?" in provider.authorization_endpoint else "?"
    return f"{provider.authorization_endpoint}{joint}{urlencode(query)}"


def _make_challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


async def finish(settings: SsoSettings, callback: Callback, source: str) -> dict[str, str]:
    """Return `{"token": …}` of a session, or `{"sso_id": …}`, which lets a signed-in user link the identity.

    Raise BadRequest, Unauthorized, Unreachable, AccessDenied or TooMany. Failures are counted for the source.
    """
    await asyncio.to_thread(lockout.ACCOUNTS.check, SUBJECT, source)
    try:
        method, provider, tokens, identity = await _identify(settings, callback)
        if method == GET_ID:
            answer = {"sso_id": await asyncio.to_thread(_make_link, identity, source)}
        else:
            user = await _find_or_register(settings, provider, tokens, identity)
            token = await asyncio.to_thread(accounts.open_session, user)  # refused if the account is disabled
            await _apply_claims(settings, provider, tokens, identity, user)
            answer = {"token": token}
    except (BadRequest, Unauthorized):
        await asyncio.to_thread(lockout.ACCOUNTS.record_failure, SUBJECT, source)
        raise
    await asyncio.to_thread(lockout.ACCOUNTS.record_success, SUBJECT, source)
    return answer


async def _identify(settings: SsoSettings, callback: Callback) -> tuple[str, Provider, Mapping[str, Any], Identity]:
    begun = await asyncio.to_thread(login_challenges.use, STATE, callback.state)
    if begun is None or not hmac.compare_digest(begun["browser"].encode(), callback.browser.encode()):
        raise BadRequest("incorrect or expired state parameter")
    if callback.error:
        raise Unauthorized(f"the identity provider answers: {callback.error[:100]}")
    if not callback.code:
        raise BadRequest("No code provided")
    provider = await providers.discover(settings)
    is_same = (provider.issuer, settings.sso_client_id) == (begun["issuer"], begun["client"])
    is_named = callback.issuer == provider.issuer if callback.issuer or provider.names_itself else True
    if not is_same or not is_named or callback.redirect_uri != begun["redirect_uri"]:
        raise Unauthorized("the answer comes from another identity provider than the sign-in began with")
    tokens = await providers.exchange(provider, settings, callback.code, begun["verifier"], begun["redirect_uri"])
    identity = await providers.identify(provider, tokens, settings.sso_client_id, begun["nonce"])
    return begun["method"], provider, tokens, identity


async def _find_or_register(
    settings: SsoSettings, provider: Provider, tokens: Mapping[str, Any], identity: Identity
) -> User:
    user = await asyncio.to_thread(users.find_by_sso_id, identity.sso_id)
    if user is not None:
        return user
    if not settings.sso_auto_register:
        raise Unauthorized("no account is linked to this identity; a user links it in the profile")
    name = await _find_name(settings, provider, tokens, identity)
    return await asyncio.to_thread(_register, settings, identity, name)


async def _apply_claims(
    settings: SsoSettings, provider: Provider, tokens: Mapping[str, Any], identity: Identity, user: User
) -> None:
    """Apply the claims with groups and with the role of administrator, if the settings name them."""
    group_claim = settings.sso_group_claim if settings.sso_group_mapping.strip() else ""
    admin_claim = settings.sso_admin_claim if settings.sso_admin_value else ""
    claims = identity.claims
    if provider.jwks_uri and not {group_claim, admin_claim} - {""} <= claims.keys():
        userinfo = await providers.read_userinfo(provider, tokens)
        claims = {**userinfo, **claims} if userinfo.get("sub") == identity.subject else claims
    _warn_about_omitted_claims(claims, {group_claim, admin_claim}, user)
    if group_claim:
        await asyncio.to_thread(apply_group_claim, user, claims, group_claim, settings.sso_group_mapping)
    await asyncio.to_thread(apply_admin_claim, user, claims, settings)


def _warn_about_omitted_claims(claims: Mapping[str, Any], names: Collection[str], user: User) -> None:
    """Log the claims that the provider leaves out because they are too long, as Microsoft does for 200 groups."""
    omitted = claims.get("_claim_names")
    for name in sorted(set(names).intersection(omitted) - claims.keys()) if isinstance(omitted, dict) else ():
        log_warning("the identity provider leaves out a claim that is too long", claim=name, user=user.username)


async def _find_name(settings: SsoSettings, provider: Provider, tokens: Mapping[str, Any], identity: Identity) -> str:
    """Return the claim with the user's name from the ID token, or else from the userinfo endpoint."""
    key = "login" if not provider.jwks_uri else settings.sso_oidc_username_key
    name = identity.claims.get(key)
    if name is None and provider.jwks_uri:
        claims = await providers.read_userinfo(provider, tokens)
        name = claims.get(key) if claims.get("sub") == identity.subject else None
    if not isinstance(name, str) or not name.strip():
        raise BadRequest(f'the identity provider gives no "{key}" that could be a user name')
    names.check(name.strip())
    return name.strip()


def _register(settings: SsoSettings, identity: Identity, name: str) -> User:
    """Create an account for an identity. Append a number to its name if the name is taken."""
    for number in range(1, MAX_NAME_ATTEMPTS + 1):
        username = name if number == 1 else f"{name}-{number}"
        fields = accounts.UserFields(
            username, settings.sso_default_dir or "/", NORMAL, settings.sso_default_permission, False,
            identity.sso_id, False,
        )  # fmt: skip
        try:
            user = accounts.create(fields, "", has_sso_link=True)
        except (NameTaken, BadRequest) as problem:
            if (linked := users.find_by_sso_id(identity.sso_id)) is not None:
                return linked  # another request created it at the same time
            if not isinstance(problem, NameTaken) and problem.message != users.LOOKALIKE_TAKEN:
                raise
            continue
        log_event("an account was created for an identity", user=user.username, sso_id=identity.sso_id)
        return user
    raise BadRequest(f"too many accounts have a name like {name[:100]}")


def _make_link(identity: Identity, source: str) -> str:
    return LINK_PREFIX + login_challenges.issue(LINK, {"sso_id": identity.sso_id}, LINK_SECONDS, source)


def read_link(user: User, sso_id: str) -> tuple[str, bool]:
    """Return the identity in a profile, and True if it is linked: either already before, or by the proof `sso_id`.

    Raise BadRequest for a used or expired proof, and for an identity of another account.
    """
    if not sso_id.startswith(LINK_PREFIX):
        return sso_id, user.has_sso_link and sso_id == user.sso_id
    proof = login_challenges.use(LINK, sso_id.removeprefix(LINK_PREFIX))
    if proof is None:
        raise BadRequest("the proof of the identity is used or expired: sign in at the identity provider again")
    owner = users.find_by_sso_id(proof["sso_id"])
    if owner is not None and owner.id != user.id:
        raise BadRequest("this identity is linked to another account")
    log_event("an identity was linked to an account", user=user.username, sso_id=proof["sso_id"])
    return proof["sso_id"], True
