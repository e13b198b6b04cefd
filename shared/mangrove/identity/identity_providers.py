"""Identity providers: their endpoints and keys, and the claims about a user that they sign.

A provider speaks OpenID Connect and is discovered from its issuer. GitHub has only OAuth 2 and is a separate
platform. Connections pass the guard on outgoing connections. It allows public addresses and the host of the issuer,
which may be private because an administrator sets it. It refuses metadata services of clouds.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import orjson

from mangrove.core.problems import BadRequest, Problem, Unauthorized, Unreachable
from mangrove.core.runtime import CacheKind
from mangrove.core.telemetry import log_warning

GITHUB = "https://github.com"
GOOGLE = "https://accounts.google.com"
MICROSOFT = "https://login.microsoftonline.com"
PLATFORMS = ("OIDC", "Google", "Microsoft", "Github")
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
)  # only those with public keys
KEY_TYPES = ("RSA", "EC")
PROVIDER_TIMEOUT_SECONDS = 15.0  # of one request, with the connection
METADATA_SECONDS = 3600  # for which endpoints are cached
KEYS_SECONDS = 600  # for which keys are cached; a key that the provider removed is valid until then
MIN_KEYS_SECONDS = 10  # between two requests for keys because of an unknown key
MAX_PROVIDER_ANSWER_BYTES = 1 << 20
MAX_PROVIDER_KEYS = 100
MAX_SUBJECT_LENGTH = 255  # characters, by the standard
CLOCK_SKEW_SECONDS = 60
REFUSED = "the sign-in at the identity provider was not accepted"


class SsoSettings(Protocol):
    """The settings of single sign-on, as in `mangrove.configuration.values.Settings`."""

    sso_login_enabled: bool
    sso_login_platform: str
    sso_client_id: str
    sso_client_secret: str
    sso_endpoint_name: str
    sso_organization_name: str
    sso_oidc_username_key: str
    sso_extra_scopes: str
    sso_auto_register: bool
    sso_default_dir: str
    sso_default_permission: int
    sso_group_claim: str
    sso_group_mapping: str
    sso_admin_claim: str
    sso_admin_value: str


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, as it describes itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str
    """"" if it has none."""
    jwks_uri: str
    """The address of its keys, "" for GitHub."""
    names_itself: bool
    """Its answers have the issuer, RFC 9207."""
    takes_secret_in_header: bool
    read_at: float
    """The monotonic time of the discovery."""


@dataclass(frozen=True, slots=True)
class PublishedKeys:
    """The keys of a provider, as JWK."""

    keys: tuple[Mapping[str, Any], ...]
    read_at: float


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as a provider knows them. The pair of issuer and subject never changes and is never reused."""

    issuer: str
    subject: str
    claims: Mapping[str, Any]

    @property
    def sso_id(self) -> str:
        """The pair as a text, joined by `#`, which an issuer cannot contain."""
        return f"{self.issuer}#{self.subject}"


class UnknownKey(Exception):
    """No key of the provider has the id that a token names."""


PROVIDERS: CacheKind[str, Provider] = CacheKind("identity providers", 8)
KEYS: CacheKind[str, PublishedKeys] = CacheKind("keys of identity providers", 8)


async def discover(settings: SsoSettings) -> Provider:
    """Return the provider that the settings name. Raise BadRequest, Unreachable or AccessDenied."""
    issuer = find_issuer(settings)
    if settings.sso_login_platform == "Github":
        return _make_github(issuer)
    cache = PROVIDERS.open()
    provider = cache.get(issuer)
    if provider is None or time.monotonic() - provider.read_at > METADATA_SECONDS:
        provider = _read_metadata(issuer, await _fetch(issuer, f"{issuer}/.well-known/openid-configuration"))
        cache.put(issuer, provider)
    return provider


def find_issuer(settings: SsoSettings) -> str:
    """Return the issuer that the settings name, without a trailing slash. Raise BadRequest."""
    platform, address = settings.sso_login_platform, settings.sso_endpoint_name.strip().rstrip("/")
    if platform == "Google":
        return GOOGLE
    if platform == "Microsoft":
        if not re.fullmatch(r"[0-9A-Fa-f-]{36}", settings.sso_organization_name):
            raise BadRequest("sign-in with Microsoft needs the id of the tenant in sso_organization_name")
        return f"{MICROSOFT}/{settings.sso_organization_name.lower()}/v2.0"
    if platform not in PLATFORMS:
        named = f"; it does not know {platform}" if platform else ""
        raise BadRequest(f"invalid platform: this version signs in with {', '.join(PLATFORMS)}{named}")
    issuer = address or (GITHUB if platform == "Github" else "")
    if not _is_secure(issuer):
        raise BadRequest("sso_endpoint_name has to be the issuer of the provider, an address that begins with https://")
    return issuer


def _is_secure(address: str) -> bool:
    """True for an HTTPS address, and for an HTTP one on this computer."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.query or parts.fragment or parts.username is not None or not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _make_github(issuer: str) -> Provider:
    api = "https://api.github.com/user" if issuer == GITHUB else f"{issuer}/api/v3/user"
    oauth = f"{issuer}/login/oauth"
    return Provider(issuer, f"{oauth}/authorize", f"{oauth}/access_token", api, "", False, False, 0.0)


def _read_metadata(issuer: str, metadata: Mapping[str, Any]) -> Provider:
    if str(metadata.get("issuer", "")).rstrip("/") != issuer:
        raise Unauthorized("the identity provider names another issuer than sso_endpoint_name")
    names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
    endpoints = [str(metadata.get(name) or "") for name in names]
    is_local = issuer.startswith("http://")
    for name, endpoint in zip(names, endpoints, strict=True):
        is_allowed = endpoint.startswith("https://") or (is_local and endpoint.startswith("http://"))
        if not is_allowed and (endpoint or name != "userinfo_endpoint"):
            raise Unauthorized(f"the identity provider has no secure {name}")
    methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    authorization_endpoint, token_endpoint, userinfo_endpoint, jwks_uri = endpoints
    return Provider(
        str(metadata["issuer"]), authorization_endpoint, token_endpoint, userinfo_endpoint, jwks_uri,
        names_itself=metadata.get("authorization_response_iss_parameter_supported") is True,
        takes_secret_in_header="client_secret_basic" in methods,
        read_at=time.monotonic(),
    )  # fmt: skip


async def _fetch(issuer: str, url: str, method: str = "GET", **options: Any) -> dict[str, Any]:
    """Return the JSON object that a provider answers with. Raise Unreachable, Unauthorized or AccessDenied."""
    from mangrove.net.addresses import AddressPolicy
    from mangrove.net.client import make_client, request

    policy = AddressPolicy.for_host(urlsplit(issuer).hostname or "")
    try:
        async with asyncio.timeout(PROVIDER_TIMEOUT_SECONDS), make_client(policy) as client:
            response = await request(client, method, url, **options)
    except TimeoutError:
        raise Unreachable("the identity provider did not answer within the time allowed") from None
    except Unreachable as problem:
        raise Unreachable(f"the identity provider: {problem.message}") from None
    try:
        if len(response.content) > MAX_PROVIDER_ANSWER_BYTES:
            raise ValueError("the answer is too large")
        answer = orjson.loads(response.content)
    except ValueError as error:
        answer = str(error)
    if response.status_code != 200 or not isinstance(answer, dict):
        reason = str(answer.get("error", "")) if isinstance(answer, dict) else ""
        log_warning("an identity provider refuses", url=url, status=response.status_code, reason=reason[:200])
        raise Unauthorized(REFUSED)
    return answer


async def exchange(provider: Provider, settings: SsoSettings, code: str, verifier: str, redirect: str) -> Any:
    """Return the tokens for a code. Raise Unreachable, Unauthorized or AccessDenied."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
    options: dict[str, Any] = {"headers": {"accept": "application/json"}}
    if provider.takes_secret_in_header:
        options["auth"] = (quote(settings.sso_client_id, safe=""), quote(settings.sso_client_secret, safe=""))
    else:
        form |= {"client_id": settings.sso_client_id, "client_secret": settings.sso_client_secret}
    tokens = await _fetch(provider.issuer, provider.token_endpoint, "POST", data=form, **options)
    if "error" in tokens:  # GitHub refuses with the status 200
        log_warning("an identity provider refuses a code", reason=str(tokens["error"])[:200])
        raise Unauthorized(REFUSED)
    return tokens


async def identify(provider: Provider, tokens: Mapping[str, Any], client_id: str, nonce: str) -> Identity:
    """Return the user of the tokens. Raise Unauthorized unless the provider signed them for this site and sign-in."""
    if not provider.jwks_uri:
        claims: Mapping[str, Any] = await read_userinfo(provider, tokens)
        id = claims.get("id")
        if not isinstance(id, int) or isinstance(id, bool):
            raise Unauthorized(REFUSED)
        return Identity(provider.issuer, str(id), claims)
    text = str(tokens.get("id_token", ""))
    published = await _read_keys(provider, KEYS_SECONDS)
    try:
        claims = await asyncio.to_thread(_decode, text, published.keys)
    except UnknownKey:  # the provider may have a new one
        published = await _read_keys(provider, MIN_KEYS_SECONDS)
        try:
            claims = await asyncio.to_thread(_decode, text, published.keys)
        except UnknownKey:
            raise _refuse("an unknown key") from None
    _check_claims(claims, provider.issuer, client_id, nonce)
    return Identity(provider.issuer, str(claims["sub"]), claims)


async def read_userinfo(provider: Provider, tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claims of the provider's endpoint about the user of an access token; empty if it has no such
    endpoint.
    """
    if not provider.userinfo_endpoint:
        return {}
    headers = {"authorization": f"Bearer {tokens.get('access_token', '')}", "accept": "application/json"}
    return await _fetch(provider.issuer, provider.userinfo_endpoint, headers=headers)


async def _read_keys(provider: Provider, max_age: float) -> PublishedKeys:
    cache = KEYS.open()
    published = cache.get(provider.jwks_uri)
    if published is None or time.monotonic() - published.read_at > max_age:
        keys = (await _fetch(provider.issuer, provider.jwks_uri)).get("keys")
        usable = [key for key in keys or () if isinstance(key, dict) and _is_usable(key)]
        published = PublishedKeys(tuple(usable[:MAX_PROVIDER_KEYS]), time.monotonic())
        cache.put(provider.jwks_uri, published)
    return published


def _is_usable(key: Mapping[str, Any]) -> bool:
    return key.get("kty") in KEY_TYPES and key.get("use", "sig") == "sig"


def _decode(text: str, keys: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Return the claims of a token with a valid signature. Raise Unauthorized or UnknownKey."""
    from joserfc import jwk, jwt
    from joserfc.errors import JoseError

    def find_key(token: Any) -> Any:
        id = token.headers().get("kid")
        matching = [key for key in keys if id is None or key.get("kid") == id]
        if len(matching) != 1:
            raise UnknownKey
        return jwk.import_key(dict(matching[0]))

    try:
        return dict(jwt.decode(text, find_key, algorithms=list(ALGORITHMS)).claims)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise _refuse(f"{type(error).__name__}") from None


def _check_claims(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str) -> None:
    """Raise Unauthorized unless the claims are for a current sign-in at this site that began with `nonce`."""
    now, audience = time.time(), claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    subject, party = claims.get("sub"), claims.get("azp")
    checks = {
        "iss": claims.get("iss") in _list_names(issuer),
        "aud": client_id in audiences,
        "azp": party == client_id if party is not None or len(audiences) > 1 else True,
        "exp": _read_time(claims, "exp", 0) > now - CLOCK_SKEW_SECONDS,
        "iat": 0 < _read_time(claims, "iat", 0) <= now + CLOCK_SKEW_SECONDS,
        "nbf": _read_time(claims, "nbf", now) <= now + CLOCK_SKEW_SECONDS,
        "nonce": hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()),
        "token_use": claims.get("token_use", "id") == "id",  # Amazon Cognito signs access tokens by the same keys
        "sub": isinstance(subject, str) and 0 < len(subject) <= MAX_SUBJECT_LENGTH and subject.isprintable(),
    }
    wrong = [name for name, is_right in checks.items() if not is_right]
    if wrong:
        raise _refuse(f"the claims {', '.join(wrong)}")


def _list_names(issuer: str) -> tuple[str, ...]:
    """Return the names of an issuer in ID tokens. Google may leave out the scheme."""
    return (issuer, issuer.partition("://")[2]) if issuer == GOOGLE else (issuer,)


def _read_time(claims: Mapping[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _refuse(reason: str) -> Problem:
    log_warning("an ID token is refused", reason=reason)
    return Unauthorized(REFUSED)
