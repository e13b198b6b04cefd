"""The particulars of Google, Microsoft, GitHub and Amazon Cognito, as they document them, at a provider on loopback."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.core.problems import BadRequest, Unauthorized
from mangrove.identity import identity_providers as providers
from mangrove.identity.claims import with_role
from mangrove.identity.rights import ADMIN
from mangrove.records import groups, users
from tests.support.identity_provider import CLIENT_ID, KEY, IdentityProvider
from tests.support.single_sign_on import Settings, sign_in

pytestmark = pytest.mark.usefixtures("records")
TENANT, OTHER_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad", "72f988bf-86f1-41af-91ab-2d7cd011db47"
POOL = "/eu-central-1_AbCdEf123"


def get_sso_id(name: str) -> str:
    user = users.find(name)
    assert user is not None
    return user.sso_id


@pytest.fixture
def google(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> IdentityProvider:
    monkeypatch.setattr(providers, "GOOGLE", provider.address)
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]}
    provider.claims = {"azp": CLIENT_ID, "email": "ann@example.org", "email_verified": True, "hd": "example.org"}
    return provider


def test_google_may_leave_out_the_scheme_of_its_name(google: IdentityProvider) -> None:
    for iss in (google.address, google.address.removeprefix("http://")):
        google.claims |= {"iss": iss}
        assert sign_in(google, sso_login_platform="Google")["token"]
    assert len(users.all()) == 1
    assert get_sso_id("ann") == f"{google.address}#{google.subject}"


@pytest.mark.parametrize("iss", ["accounts.google.com", "https://accounts.google.com.example.org", "//127.0.0.1"])
def test_other_name_of_google_is_refused(google: IdentityProvider, iss: str) -> None:
    google.claims |= {"iss": iss}
    with pytest.raises(Unauthorized):
        sign_in(google, sso_login_platform="Google")


def test_other_provider_may_not_leave_out_its_scheme(provider: IdentityProvider) -> None:
    provider.claims = {"iss": provider.address.removeprefix("http://")}
    with pytest.raises(Unauthorized):
        sign_in(provider)


@pytest.fixture
def microsoft(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> IdentityProvider:
    """Microsoft Entra with one tenant. Its keys name no algorithm, but a certificate and an issuer."""
    monkeypatch.setattr(providers, "MICROSOFT", provider.address)
    provider.folder = f"/{TENANT}/v2.0"
    key = {name: value for name, value in KEY.as_dict(private=False).items() if name != "alg"}
    more = {"x5t": key["kid"], "x5c": ["MIIC/TCCAeWgAwIBAgI"], "cloud_instance_name": "microsoftonline.com"}
    provider.published = [key | more | {"issuer": f"{provider.address}/{{tenantid}}/v2.0"}]
    provider.claims = {"tid": TENANT, "ver": "2.0", "oid": "x", "name": None, "preferred_username": "ann@example.org"}
    return provider


MICROSOFT: dict[str, Any] = {
    "sso_login_platform": "Microsoft", "sso_organization_name": TENANT.upper(),
    "sso_oidc_username_key": "preferred_username",
}  # fmt: skip


def test_microsoft_identifies_a_user_of_the_tenant(microsoft: IdentityProvider) -> None:
    assert sign_in(microsoft, **MICROSOFT)["token"]
    assert get_sso_id("ann@example.org") == f"{microsoft.address}/{TENANT}/v2.0#{microsoft.subject}"


def test_token_of_another_tenant_of_microsoft_is_refused(microsoft: IdentityProvider) -> None:
    for tenant in (OTHER_TENANT, "{tenantid}", "common"):
        microsoft.claims |= {"iss": f"{microsoft.address}/{tenant}/v2.0", "tid": tenant}
        with pytest.raises(Unauthorized, match="not accepted"):
            sign_in(microsoft, **MICROSOFT)
    assert not users.all()


@pytest.mark.parametrize("tenant", ["common", "organizations", "consumers"])
def test_issuer_of_all_tenants_of_microsoft_is_refused(microsoft: IdentityProvider, tenant: str) -> None:
    """Their discovery document has a placeholder, so that the user of any tenant could sign in."""
    with pytest.raises(BadRequest, match="id of the tenant"):
        sign_in(microsoft, **MICROSOFT | {"sso_organization_name": tenant})
    microsoft.folder = f"/{tenant}/v2.0"
    microsoft.metadata = {"issuer": f"{microsoft.address}/{{tenantid}}/v2.0"}
    with pytest.raises(Unauthorized, match="another issuer"):
        sign_in(microsoft, sso_endpoint_name=microsoft.issuer)


def test_groups_that_microsoft_leaves_out_count_as_none(
    microsoft: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    group = groups.create(name="editors", members=[], permission=0, folders=[])
    mapped = MICROSOFT | {"sso_group_claim": "groups", "sso_group_mapping": f"{OTHER_TENANT} = editors"}
    microsoft.claims |= {"groups": [OTHER_TENANT]}
    sign_in(microsoft, **mapped)
    assert len(groups.get(group.id).members) == 1
    microsoft.claims |= {"groups": None, "_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {}}}
    sign_in(microsoft, **mapped)
    assert groups.get(group.id).members == []
    assert "leaves out a claim that is too long" in caplog.text


def test_github_refuses_a_code_with_status_200(provider: IdentityProvider) -> None:
    provider.refusal = {"error": "bad_verification_code", "error_description": "The code is incorrect or expired."}
    with pytest.raises(Unauthorized, match="not accepted"):
        sign_in(provider, sso_login_platform="Github")
    assert [path for path, _ in provider.requests] == ["/login/oauth/access_token"], "no request without a token"


def test_github_gets_a_user_agent_and_no_discovery(provider: IdentityProvider) -> None:
    assert sign_in(provider, sso_login_platform="Github")["token"]
    assert [path for path, _ in provider.requests] == ["/login/oauth/access_token", "/api/v3/user"]
    assert all(provider.agents), "GitHub refuses requests without one"


def test_github_token_of_an_identity_counts_for_nothing(provider: IdentityProvider) -> None:
    """GitHub has no ID tokens, so the user is the answer of its API alone."""
    provider.claims = {"sub": "1", "id": 1, "login": "root"}
    sign_in(provider, sso_login_platform="Github")
    assert get_sso_id("octocat") == f"{provider.address}#583231" and users.find("root") is None


@pytest.fixture
def cognito(provider: IdentityProvider) -> IdentityProvider:
    """A user pool, whose issuer has a path and whose endpoints are elsewhere."""
    provider.folder = POOL
    provider.claims = {
        "token_use": "id", "cognito:username": "ann", "cognito:groups": ["editors", "root"], "name": None,
        "origin_jti": "x", "event_id": "x", "auth_time": 1, "email_verified": True,
    }  # fmt: skip
    return provider


COGNITO = {
    "sso_oidc_username_key": "cognito:username", "sso_group_claim": "cognito:groups",
    "sso_group_mapping": "editors = editors", "sso_admin_claim": "cognito:groups", "sso_admin_value": "root",
}  # fmt: skip


def test_cognito_names_user_groups_and_administrators(cognito: IdentityProvider) -> None:
    group = groups.create(name="editors", members=[], permission=0, folders=[])
    settings = COGNITO | {"sso_endpoint_name": cognito.issuer}
    assert sign_in(cognito, **settings)["token"]
    assert get_sso_id("ann") == f"{cognito.address}{POOL}#{cognito.subject}"
    assert len(groups.get(group.id).members) == 1
    ann = users.find("ann")
    assert ann is not None and with_role(ann, Settings(**settings)).role == ADMIN


def test_access_token_of_cognito_is_no_identity(cognito: IdentityProvider) -> None:
    settings = COGNITO | {"sso_endpoint_name": cognito.issuer}
    access = {"token_use": "access", "client_id": CLIENT_ID, "scope": "openid"}
    for claims in (access, access | {"aud": None, "nonce": None}):
        cognito.claims |= claims
        with pytest.raises(Unauthorized, match="not accepted"):
            sign_in(cognito, **settings)
    assert not users.all()


def test_user_of_another_pool_is_refused(cognito: IdentityProvider) -> None:
    cognito.claims |= {"iss": f"{cognito.address}/eu-central-1_Other"}
    with pytest.raises(Unauthorized, match="not accepted"):
        sign_in(cognito, **COGNITO | {"sso_endpoint_name": cognito.issuer})
