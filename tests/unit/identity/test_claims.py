"""The claims of an identity provider that decide groups and the role of administrator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.problems import Unauthorized
from mangrove.identity import accounts, claims
from mangrove.identity.accounts import UserFields
from mangrove.identity.claims import MAX_GROUP_CLAIM_VALUES
from mangrove.identity.rights import ADMIN, NORMAL
from mangrove.records import groups, users
from tests.support.identity_provider import IdentityProvider, run_identity_provider
from tests.support.single_sign_on import Claims, Settings, link, sign_in

pytestmark = pytest.mark.usefixtures("records")


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


ADMIN_CLAIM = {"sso_admin_claim": "roles", "sso_admin_value": "root"}


def find_role(provider: IdentityProvider, **changes: Any) -> int:
    """Return the role that the account of ann has with these settings."""
    ann = users.find("ann")
    assert ann is not None and ann.role == NORMAL
    return claims.with_role(ann, Settings(provider.address, **changes)).role


@pytest.mark.parametrize("value", ["root", ["other", "root"]])
def test_claim_gives_the_role_of_administrator_and_takes_it(provider: IdentityProvider, value: Any) -> None:
    provider.claims = {"roles": value}
    sign_in(provider, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == ADMIN
    provider.claims = {"roles": ["other"]}
    sign_in(provider, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL


def test_admin_claim_of_userinfo_counts_for_the_same_subject(provider: IdentityProvider) -> None:
    provider.userinfo = {"roles": "root", "sub": "another"}
    sign_in(provider, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL
    provider.userinfo = {"roles": "root"}
    sign_in(provider, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == ADMIN
    provider.claims = {"roles": []}  # the ID token comes first
    sign_in(provider, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sso_admin_claim": "roles"},
        {"sso_admin_value": "root"},
        {"sso_admin_claim": "", "sso_admin_value": ""},
    ],
)
def test_no_claim_makes_an_administrator_unless_both_are_set(provider: IdentityProvider, changes: Claims) -> None:
    provider.claims = {"roles": ["root", "", "admin"], "": "root"}
    sign_in(provider, **changes)
    for later in (changes, ADMIN_CLAIM):
        assert find_role(provider, **later) == NORMAL


@pytest.mark.parametrize("value", [None, "", "Root", "root ", True, 7, {"root": "root"}, [["root"]]])
def test_other_value_of_the_claim_makes_no_administrator(provider: IdentityProvider, value: Any) -> None:
    provider.claims = {"roles": value}
    sign_in(provider, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL


@pytest.mark.parametrize(
    "changes",
    [
        {"sso_login_enabled": False},
        {"sso_admin_claim": "groups"},
        {"sso_admin_value": "staff"},
        {"sso_admin_value": ""},
        {"sso_endpoint_name": "https://issuer.example.org"},
        {"sso_endpoint_name": ""},
        {"sso_login_platform": "Google"},
    ],
)
def test_role_of_a_claim_ends_with_the_settings_that_gave_it(provider: IdentityProvider, changes: Claims) -> None:
    provider.claims = {"roles": "root"}
    sign_in(provider, **ADMIN_CLAIM)
    ann = users.find("ann")
    assert ann is not None
    settings = replace(Settings(provider.address, **ADMIN_CLAIM), **changes)
    assert claims.with_role(ann, settings).role == NORMAL


def test_role_of_a_claim_ends_with_the_link_to_the_identity(provider: IdentityProvider) -> None:
    provider.claims = {"roles": "root"}
    sign_in(provider, **ADMIN_CLAIM)
    ann = users.find("ann")
    assert ann is not None
    accounts.update_me(ann, "ann", "", ann.sso_id)  # the text stays, the proof does not
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL
    accounts.update_me(ann, "ann", "", f"{provider.address}#another", has_sso_link=True)
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL


def test_claim_of_another_issuer_makes_no_administrator(provider: IdentityProvider) -> None:
    with run_identity_provider() as attacker:
        provider.claims = {"roles": "root", "iss": attacker.address}
        with pytest.raises(Unauthorized):
            sign_in(provider, **ADMIN_CLAIM)
        attacker.claims = {"roles": "root"}
        sign_in(attacker, **ADMIN_CLAIM)
    assert find_role(provider, **ADMIN_CLAIM) == NORMAL


def test_claim_of_the_largest_size_is_read(provider: IdentityProvider) -> None:
    others = [f"group {number}" for number in range(MAX_GROUP_CLAIM_VALUES)]
    for values, role in (([*others[1:], "root"], ADMIN), ([*others, "root"], NORMAL)):
        provider.claims = {"roles": values}
        sign_in(provider, **ADMIN_CLAIM)
        assert find_role(provider, **ADMIN_CLAIM) == role


def test_claim_changes_nothing_for_the_administrator_of_the_site(provider: IdentityProvider) -> None:
    root = users.create(username="root", password_hash="", role=ADMIN)
    link(provider, root)
    for value in ("root", None):
        provider.claims = {"roles": value}
        sign_in(provider, **ADMIN_CLAIM)
        assert users.get(root.id).role == ADMIN and users.get(root.id).admin_claim == ""


def test_claim_of_a_disabled_account_changes_nothing(provider: IdentityProvider) -> None:
    sign_in(provider)
    ann = users.find("ann")
    assert ann is not None
    users.change(ann.id, disabled=True)
    provider.claims = {"roles": "root"}
    with pytest.raises(Unauthorized, match="disabled"):
        sign_in(provider, **ADMIN_CLAIM)
    assert users.get(ann.id).admin_claim == ""


def test_account_with_the_role_of_a_claim_is_deleted_like_others(provider: IdentityProvider) -> None:
    provider.claims = {"roles": "root"}
    sign_in(provider, **ADMIN_CLAIM)
    ann = users.find("ann")
    assert ann is not None
    accounts.update(ann.id, UserFields("ann", "/", NORMAL, 0, True, ann.sso_id, False), "")
    accounts.delete(ann.id)
    assert users.find("ann") is None
