"""ID tokens that an attacker makes, and the keys of a provider."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt

from mangrove.core.problems import Unauthorized
from mangrove.identity import identity_providers as providers
from mangrove.records import users
from tests.support.identity_provider import CLIENT_ID, KEY, OTHER_KEY, IdentityProvider
from tests.support.single_sign_on import Claims, sign_in

pytestmark = pytest.mark.usefixtures("records")


def encode(part: Claims) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def sign_with_none(claims: Claims) -> str:
    return f"{encode({'alg': 'none'})}.{encode(claims)}."


def sign_with_public_key(claims: Claims) -> str:
    public = KEY.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{encode({'alg': 'HS256', 'kid': 'first'})}.{encode(claims)}"
    mac = hmac.digest(public, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def sign_with_other_key(claims: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, OTHER_KEY)


def sign_with_embedded_key(claims: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": "new", "jwk": OTHER_KEY.as_dict(private=False)}, claims, OTHER_KEY)


def sign_with_changed_claims(claims: Claims) -> str:
    head, _, signature = jwt.encode({"alg": "RS256", "kid": "first"}, claims, KEY).split(".")
    return f"{head}.{encode(claims | {'sub': 'admin'})}.{signature}"


def sign_nothing(claims: Claims) -> str:
    return "a.b"


@pytest.mark.parametrize(
    "sign",
    [
        sign_with_none,
        sign_with_public_key,
        sign_with_other_key,
        sign_with_embedded_key,
        sign_with_changed_claims,
        sign_nothing,
    ],
)
def test_token_without_a_signature_of_the_provider_is_refused(
    provider: IdentityProvider, sign: Callable[[Claims], str]
) -> None:
    provider.make_token = sign
    with pytest.raises(Unauthorized, match="not accepted"):
        sign_in(provider)
    assert not users.all()


START_TIME = int(time.time())


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://accounts.example.com"},
        {"iss": None},
        {"aud": "another site"},
        {"aud": ["another site"]},
        {"aud": [CLIENT_ID, "another site"]},
        {"aud": [CLIENT_ID, "another site"], "azp": "another site"},
        {"azp": "another site"},
        {"aud": None},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": START_TIME - 3600},
        {"exp": None},
        {"exp": "tomorrow"},
        {"iat": START_TIME + 3600},
        {"iat": None},
        {"nbf": START_TIME + 3600},
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": "x" * 256},
        {"token_use": "access"},
    ],
)
def test_token_with_a_wrong_claim_is_refused(provider: IdentityProvider, claims: Claims) -> None:
    provider.claims = claims
    with pytest.raises(Unauthorized, match="not accepted"):
        sign_in(provider)
    assert not users.all()


def test_new_key_is_read_and_a_removed_one_is_refused(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sign_in(provider)
    provider.key, provider.published = OTHER_KEY, [KEY, OTHER_KEY]
    with pytest.raises(Unauthorized):
        sign_in(provider)  # the keys were read a moment ago
    monkeypatch.setattr(providers, "MIN_KEYS_SECONDS", 0)
    assert sign_in(provider)
    provider.key, provider.published = KEY, [OTHER_KEY]
    monkeypatch.setattr(providers, "KEYS_SECONDS", 0)
    with pytest.raises(Unauthorized):
        sign_in(provider)


def test_token_without_key_id_needs_a_single_key(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "KEYS_SECONDS", 0)
    provider.make_token = lambda claims: jwt.encode({"alg": "RS256"}, claims, KEY)
    assert sign_in(provider)
    provider.published = [KEY, OTHER_KEY]
    with pytest.raises(Unauthorized):
        sign_in(provider)
