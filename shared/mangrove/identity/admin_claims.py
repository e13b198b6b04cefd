"""The claim of an identity provider that makes users administrators.

Each sign-in at the provider decides again and stores the result. It applies only while the settings name the same
provider, claim and value. The stored role does not change, so that the account can be disabled and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mangrove.core.problems import BadRequest
from mangrove.core.telemetry import log_event
from mangrove.identity.group_claims import read_values
from mangrove.identity.identity_providers import SsoSettings, find_issuer
from mangrove.identity.rights import ADMIN, NORMAL
from mangrove.records import users
from mangrove.records.users import User


def apply(user: User, claims: Mapping[str, Any], settings: SsoSettings) -> None:
    """Store if the claims of a sign-in make a user an administrator. A missing claim does not."""
    has_value = settings.sso_admin_value in read_values(claims.get(settings.sso_admin_claim))
    admin_claim = _make_name(user, settings) if has_value and user.role == NORMAL else ""
    if admin_claim != user.admin_claim:
        users.change(user.id, admin_claim=admin_claim)
        log_event("a claim changes the role", user=user.username, is_administrator=bool(admin_claim))


def with_role(user: User, settings: SsoSettings) -> User:
    """Return a user with the role of administrator if the claim gives it, or else the user as stored."""
    is_set = bool(user.admin_claim) and settings.sso_login_enabled and user.has_sso_link
    return replace(user, role=ADMIN) if is_set and user.admin_claim == _make_name(user, settings) else user


def _make_name(user: User, settings: SsoSettings) -> str:
    """Return the user's identity with the claim and the value of the settings as one text.

    It is empty if the settings name no claim, or another provider than that of the identity.
    """
    claim, value = settings.sso_admin_claim, settings.sso_admin_value
    try:
        is_current = user.sso_id.partition("#")[0].rstrip("/") == find_issuer(settings)
    except BadRequest:
        is_current = False
    return "\n".join((user.sso_id, claim, value)) if claim and value and is_current else ""
