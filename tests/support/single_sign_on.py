"""Sign-ins at the provider of `tests.support.identity_provider`, without HTTP between the browser and the service."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from mangrove.identity import accounts, single_sign_on
from mangrove.identity.accounts import UserFields
from mangrove.identity.single_sign_on import Callback
from mangrove.records.users import User
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider

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
    sso_admin_claim: str = ""
    sso_admin_value: str = ""
    sso_login_enabled: bool = True


def make_settings(provider: IdentityProvider, **changes: Any) -> Settings:
    return Settings(**{"sso_endpoint_name": provider.address, **changes})


def begin(provider: IdentityProvider, method: str = single_sign_on.GET_TOKEN, **changes: Any) -> dict[str, str]:
    settings = make_settings(provider, **changes)
    return provider.begin(asyncio.run(single_sign_on.begin(settings, method, REDIRECT, BROWSER, SOURCE)))


def finish(
    provider: IdentityProvider, parameters: dict[str, str], *, browser: str = BROWSER, issuer: str = "", **changes: Any
) -> dict[str, str]:
    callback = Callback(
        code=parameters.get("code", ""), state=parameters.get("state", ""), issuer=issuer,
        error=parameters.get("error", ""), browser=browser, redirect_uri=REDIRECT,
    )  # fmt: skip
    return asyncio.run(single_sign_on.finish(make_settings(provider, **changes), callback, SOURCE))


def sign_in(provider: IdentityProvider, **changes: Any) -> dict[str, str]:
    return finish(provider, begin(provider, **changes), **changes)


def create_user(name: str = "ann") -> User:
    return accounts.create(UserFields(name, "/", 0, 0, False, "", True), "her own password")


def link(provider: IdentityProvider, user: User) -> None:
    proof = finish(provider, begin(provider, single_sign_on.GET_ID))["sso_id"]
    sso_id, is_linked = single_sign_on.read_link(user, proof)
    accounts.update_me(user, user.username, "", sso_id, has_sso_link=is_linked)
