"""Single sign-on against a provider that answers rightly, and against what an attacker can make of each part."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mangrove.core.problems import AccessDenied, BadRequest, Problem, TooMany, Unauthorized, Unreachable
from mangrove.identity import accounts, lockout, single_sign_on
from mangrove.identity import identity_providers as providers
from mangrove.identity.accounts import UserFields
from mangrove.records import users
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, run_identity_provider
from tests.support.single_sign_on import (
    BROWSER,
    REDIRECT,
    SOURCE,
    Claims,
    Settings,
    begin,
    create_user,
    finish,
    link,
    sign_in,
)

pytestmark = pytest.mark.usefixtures("records")


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
