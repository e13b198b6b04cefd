"""Single sign-on against a provider that answers rightly, and against what an attacker can make of each part."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt

from mangrove.core.problems import AccessDenied, BadRequest, Problem, TooMany, Unauthorized, Unreachable
from mangrove.identity import accounts, lockout, single_sign_on
from mangrove.identity import identity_providers as providers
from mangrove.identity.accounts import UserFields
from mangrove.identity.single_sign_on import Callback
from mangrove.records import groups, users
from mangrove.records.users import User
from tests.support.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    KEY,
    OTHER_KEY,
    IdentityProvider,
    run_identity_provider,
)

pytestmark = pytest.mark.usefixtures("records")
SOURCE, BROWSER, REDIRECT = "1.2.3.4", "b" * 43, "https://files.example.org/api/auth/sso_callback"
Claims = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    sso_endpoint_name: str
    sso_login_platform: str = "OIDC"
    sso_client_id: str = CLIENT_ID
    sso_client_secret: str = CLIENT_SECRET
    sso_organization_name: str = ""
    sso_oidc_username_key: str = "name"
    sso_extra_scopes: str = ""
    sso_auto_register: bool = True
    sso_default_dir: str = "/homes"
    sso_default_permission: int = 8
    sso_group_claim: str = ""
    sso_group_mapping: str = ""


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with run_identity_provider() as provider:
        yield provider


def begin(provider: IdentityProvider, method: str = single_sign_on.GET_TOKEN, **changes: Any) -> dict[str, str]:
    settings = Settings(provider.address, **changes)
    return provider.begin(asyncio.run(single_sign_on.begin(settings, method, REDIRECT, BROWSER, SOURCE)))


def finish(
    provider: IdentityProvider, parameters: dict[str, str], *, browser: str = BROWSER, issuer: str = "", **changes: Any
) -> dict[str, str]:
    callback = Callback(
        code=parameters.get("code", ""), state=parameters.get("state", ""), issuer=issuer,
        error=parameters.get("error", ""), browser=browser, redirect_uri=REDIRECT,
    )  # fmt: skip
    return asyncio.run(single_sign_on.finish(Settings(provider.address, **changes), callback, SOURCE))


def sign_in(provider: IdentityProvider, **changes: Any) -> dict[str, str]:
    return finish(provider, begin(provider, **changes), **changes)


def create_user(name: str = "ann") -> User:
    return accounts.create(UserFields(name, "/", 0, 0, False, "", True), "her own password")


def link(provider: IdentityProvider, user: User) -> None:
    proof = finish(provider, begin(provider, single_sign_on.GET_ID))["sso_id"]
    sso_id, is_linked = single_sign_on.read_link(user, proof)
    accounts.update_me(user, user.username, "", sso_id, has_sso_link=is_linked)


def test_first_sign_in_creates_an_account_and_the_next_one_finds_it(provider: IdentityProvider) -> None:
    assert sign_in(provider)["token"].count(".") == 2
    user = users.find("ann")
    assert user is not None and (user.base_path, user.permission, user.role) == ("/homes", 8, 0)
    assert user.sso_id == f"{provider.address}#{provider.subject}"
    provider.claims = {"name": "another name"}
    assert sign_in(provider, sso_auto_register=False)["token"]
    assert len(users.all()) == 1


def test_address_of_the_sign_in_has_state_nonce_and_pkce(provider: IdentityProvider) -> None:
    settings = Settings(provider.address, sso_extra_scopes="groups  offline_access")
    url = asyncio.run(single_sign_on.begin(settings, "sso_get_token", REDIRECT, BROWSER, SOURCE))
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert url.startswith(f"{provider.address}/authorize?")
    assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
    assert query["scope"] == "openid profile email groups offline_access"
    assert (query["client_id"], query["redirect_uri"]) == (CLIENT_ID, REDIRECT)
    assert min(len(query[name]) for name in ("state", "nonce", "code_challenge")) >= 43
    assert CLIENT_SECRET not in url and BROWSER not in url
    finish(provider, provider.begin(url))
    form = next(form for path, form in provider.requests if path == "/token")
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == query["code_challenge"]


def test_identity_is_never_joined_to_an_account_by_its_name(provider: IdentityProvider) -> None:
    ann = create_user()
    users.change(ann.id, sso_id=f"{provider.address}#{provider.subject}")  # as anybody may write into a profile
    sign_in(provider)
    other = users.find("ann-2")
    assert other is not None and other.id != ann.id
    provider.subject = "another"
    sign_in(provider)
    assert users.find("ann-3") is not None
    with pytest.raises(Unauthorized, match="no account is linked"):
        provider.subject = "a third"
        sign_in(provider, sso_auto_register=False)


def test_same_subject_of_another_issuer_is_another_account(provider: IdentityProvider) -> None:
    sign_in(provider)
    with run_identity_provider() as second:
        sign_in(second)
    assert {user.username for user in users.all()} == {"ann", "ann-2"}


def test_linked_identity_signs_in_to_the_account_that_linked_it(provider: IdentityProvider) -> None:
    ann, bob = create_user(), create_user("bob")
    link(provider, ann)
    assert sign_in(provider, sso_auto_register=False)["token"]
    with pytest.raises(BadRequest, match="another account"):
        link(provider, bob)
    ann = users.get(ann.id)
    accounts.update_me(ann, "ann", "", "", has_sso_link=single_sign_on.read_link(ann, "")[1])
    with pytest.raises(Unauthorized, match="no account is linked"):
        sign_in(provider, sso_auto_register=False)
    link(provider, bob)  # free again


def test_proof_of_an_identity_is_used_once(provider: IdentityProvider) -> None:
    ann = create_user()
    proof = finish(provider, begin(provider, single_sign_on.GET_ID))["sso_id"]
    assert single_sign_on.read_link(ann, proof)[1]
    for text in (proof, "link-", "link-made-up"):
        with pytest.raises(BadRequest, match="used or expired"):
            single_sign_on.read_link(ann, text)
    assert single_sign_on.read_link(ann, "any text") == ("any text", False)


def test_administrator_keeps_and_cuts_a_link_but_makes_none(provider: IdentityProvider) -> None:
    ann = create_user()
    link(provider, ann)
    ann = users.get(ann.id)
    fields = UserFields("ann", "/", 0, 0, False, ann.sso_id, True)
    assert accounts.update(ann.id, fields, "").has_sso_link
    assert not accounts.update(ann.id, replace(fields, sso_id="other"), "").has_sso_link
    assert not accounts.update(ann.id, fields, "").has_sso_link


def test_disabled_account_stays_out(provider: IdentityProvider) -> None:
    sign_in(provider)
    ann = users.find("ann")
    assert ann is not None
    users.change(ann.id, disabled=True)
    with pytest.raises(Unauthorized, match="disabled"):
        sign_in(provider)


def test_state_is_used_once_by_the_browser_that_began(provider: IdentityProvider) -> None:
    parameters = begin(provider)
    assert finish(provider, parameters)
    for stolen in (parameters, {"code": "x"}, {"code": "x", "state": "made up"}):
        with pytest.raises(BadRequest, match="state"):
            finish(provider, stolen)
    for browser in ("", "c" * 43):
        with pytest.raises(BadRequest, match="state"):
            finish(provider, begin(provider), browser=browser)


def test_wrong_code_and_refusal_of_the_provider_are_refused(provider: IdentityProvider) -> None:
    with pytest.raises(Unauthorized):
        finish(provider, begin(provider) | {"code": "stolen"})
    with pytest.raises(Unauthorized, match="access_denied"):
        finish(provider, begin(provider) | {"error": "access_denied"})
    with pytest.raises(BadRequest, match="No code"):
        finish(provider, begin(provider) | {"code": ""})


def test_answer_of_another_provider_is_refused(provider: IdentityProvider) -> None:
    with run_identity_provider() as attacker:
        parameters = begin(provider)
        with pytest.raises(Unauthorized, match="another identity provider"):
            finish(attacker, parameters)  # the settings were changed meanwhile
        assert all(path != "/token" for path, _ in attacker.requests)
        with pytest.raises(Unauthorized, match="another identity provider"):
            finish(provider, begin(provider), issuer=attacker.address)
    with pytest.raises(Unauthorized, match="another identity provider"):
        finish(provider, begin(provider), sso_client_id="other")
    assert finish(provider, begin(provider), issuer=provider.address)


def test_provider_that_promises_its_name_has_to_give_it(provider: IdentityProvider) -> None:
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    with pytest.raises(Unauthorized, match="another identity provider"):
        finish(provider, begin(provider))
    assert finish(provider, begin(provider), issuer=provider.address)


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


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({"token_endpoint": "http://169.254.169.254/latest/meta-data"}, AccessDenied),
        ({"token_endpoint": "http://10.0.0.1/token"}, AccessDenied),
        ({"jwks_uri": "http://[fd00:ec2::254]/"}, AccessDenied),
        ({"token_endpoint": "file:///etc/passwd"}, Unauthorized),
        ({"jwks_uri": ""}, Unauthorized),
        ({"issuer": "http://127.0.0.1:1"}, Unauthorized),
    ],
)
def test_endpoints_in_the_network_of_the_service_are_refused(
    provider: IdentityProvider, metadata: Claims, kind: type[Problem]
) -> None:
    provider.metadata = metadata
    with pytest.raises(kind):
        sign_in(provider)


@pytest.mark.parametrize(
    "changes",
    [
        {"sso_login_platform": "Casdoor"},
        {"sso_login_platform": "Dingtalk"},
        {"sso_login_platform": ""},
        {"sso_login_platform": "Microsoft", "sso_organization_name": "common"},
        {"sso_endpoint_name": "http://issuer.example.org"},
        {"sso_endpoint_name": "https://user@issuer.example.org"},
        {"sso_endpoint_name": "https://issuer.example.org?x=1"},
        {"sso_endpoint_name": ""},
    ],
)
def test_settings_without_a_provider_are_refused_by_name(changes: Claims) -> None:
    settings = replace(Settings("https://issuer.example.org"), **changes)
    with pytest.raises(BadRequest, match=r"platform|tenant|https"):
        asyncio.run(providers.discover(settings))


@pytest.mark.parametrize(
    ("platform", "issuer"),
    [
        ("Google", "https://accounts.google.com"),
        ("Microsoft", "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"),
        ("Github", "https://github.com"),
    ],
)
def test_platform_has_its_issuer(platform: str, issuer: str) -> None:
    tenant = "9188040D-6C67-4C5B-B112-36A304B66DAD"
    settings = Settings("", sso_login_platform=platform, sso_organization_name=tenant)
    assert providers.find_issuer(settings) == issuer


def test_github_identifies_a_user_by_number(provider: IdentityProvider) -> None:
    assert sign_in(provider, sso_login_platform="Github")["token"]
    user = users.find("octocat")
    assert user is not None and user.sso_id == f"{provider.address}#583231"
    provider.user = {"id": "583231", "login": "octocat"}
    with pytest.raises(Unauthorized):
        sign_in(provider, sso_login_platform="Github")


def test_name_comes_from_userinfo_of_the_same_subject(provider: IdentityProvider) -> None:
    provider.userinfo = {"preferred_username": "ann.smith", "sub": "another"}
    with pytest.raises(BadRequest, match="preferred_username"):
        sign_in(provider, sso_oidc_username_key="preferred_username")
    provider.userinfo = {"preferred_username": "ann.smith"}
    sign_in(provider, sso_oidc_username_key="preferred_username")
    assert users.find("ann.smith") is not None


def list_groups(user_id: int) -> set[str]:
    return {group.name for group in groups.all() if user_id in group.members}


def test_claim_decides_the_groups_of_the_mapping_alone(provider: IdentityProvider) -> None:
    for name in ("editors", "readers", "own"):
        groups.create(name=name, members=[], permission=0, folders=[])
    mapped = {"sso_group_claim": "roles", "sso_group_mapping": "a=b = editors\n read = readers\nlost = missing\n"}
    provider.claims = {"roles": ["a=b", "other", 7, "own"]}
    sign_in(provider, **mapped)
    ann = users.find("ann")
    assert ann is not None and list_groups(ann.id) == {"editors"}
    own = next(group for group in groups.all() if group.name == "own")
    groups.set_member(own.id, ann.id, True)
    provider.claims = {"roles": "read"}
    sign_in(provider, **mapped)
    assert list_groups(ann.id) == {"readers", "own"}
    provider.claims, provider.userinfo = {}, {"roles": ["a=b"]}
    sign_in(provider, **mapped)
    assert list_groups(ann.id) == {"editors", "own"}
    sign_in(provider)  # without the settings nothing changes
    assert list_groups(ann.id) == {"editors", "own"}
    provider.userinfo = {}
    sign_in(provider, **mapped)
    assert list_groups(ann.id) == {"own"}


@pytest.mark.parametrize("name", ["", "  ", 7, "a\nb", "x" * 256, "pаypal"])
def test_name_that_no_account_can_have_is_refused(provider: IdentityProvider, name: Any) -> None:
    provider.claims = {"name": name}
    with pytest.raises(BadRequest):
        sign_in(provider)
    assert not users.all()


def test_failures_lock_the_source_out(provider: IdentityProvider) -> None:
    for _ in range(lockout.MAX_FAILURES_PER_PAIR):
        with pytest.raises(BadRequest):
            finish(provider, {"code": "x", "state": "guess"})
    with pytest.raises(TooMany):
        finish(provider, begin(provider))


def test_provider_that_is_down_is_told_apart(provider: IdentityProvider) -> None:
    settings = Settings("http://127.0.0.1:1")
    with pytest.raises(Unreachable, match="identity provider"):
        asyncio.run(single_sign_on.begin(settings, "sso_get_token", REDIRECT, BROWSER, SOURCE))
