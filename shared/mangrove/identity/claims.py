"""Claims of an identity provider that decide about a user: the memberships in groups, and the role of administrator.

A claim lists values, and settings map the values to groups. The claim of administrators is decided at each sign-in and
the result is stored; it applies only while the settings name the same provider, claim and value. The stored role does
not change, so that the account can be disabled and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mangrove.core.problems import BadRequest, RecordNotFound
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity.groups import MAX_MEMBERS_PER_GROUP
from mangrove.identity.identity_providers import SsoSettings, find_issuer
from mangrove.identity.rights import ADMIN, NORMAL
from mangrove.records import groups as records
from mangrove.records import users
from mangrove.records.users import User

MAX_GROUP_CLAIM_VALUES = 1000  # of a claim that are read


def parse_mapping(text: str) -> dict[str, set[str]]:
    """Return the names of groups by the value of the claim, from lines `value = group`. Raise ValueError."""
    mapping: dict[str, set[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        value, _, name = (part.strip() for part in line.rpartition("="))
        if not value or not name:
            raise ValueError(f'"{line[:40]}" is not like value = group')
        mapping.setdefault(value, set()).add(name)
    return mapping


def _read_values(claim: Any) -> set[str]:
    """Return the values of a claim, which is a list of texts or one text; none for any other."""
    values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return {value for value in values[:MAX_GROUP_CLAIM_VALUES] if isinstance(value, str)}


def apply_group_claim(user: User, claims: Mapping[str, Any], claim: str, mapping_text: str) -> None:
    """Make a user a member of the groups that the claim names, and of no other group of the mapping.

    Memberships in groups outside of the mapping do not change. A missing claim counts as an empty list.
    """
    mapping, values = parse_mapping(mapping_text), _read_values(claims.get(claim))
    managed = set().union(*mapping.values())
    named = set().union(*(names for value, names in mapping.items() if value in values))
    for group in records.all() if managed else ():
        is_member = group.name in named
        if group.name not in managed or is_member == (user.id in group.members):
            continue
        if is_member and len(group.members) >= MAX_MEMBERS_PER_GROUP:
            log_warning("a group is full", group=group.name, user=user.username)
            continue
        try:
            records.set_member(group.id, user.id, is_member)
        except RecordNotFound:
            continue  # deleted meanwhile
        log_event("a claim changes a group", group=group.name, user=user.username, is_member=is_member)


def apply_admin_claim(user: User, claims: Mapping[str, Any], settings: SsoSettings) -> None:
    """Store if the claims of a sign-in make a user an administrator. A missing claim does not."""
    has_value = settings.sso_admin_value in _read_values(claims.get(settings.sso_admin_claim))
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
