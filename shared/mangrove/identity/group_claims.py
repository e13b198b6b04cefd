"""Memberships that an identity provider decides: a claim lists values, and settings map the values to groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mangrove.core.problems import RecordNotFound
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity.groups import MAX_MEMBERS_PER_GROUP
from mangrove.records import groups as records
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


def read_values(claim: Any) -> set[str]:
    """Return the values of a claim, which is a list of texts or one text; none for any other."""
    values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return {value for value in values[:MAX_GROUP_CLAIM_VALUES] if isinstance(value, str)}


def apply(user: User, claims: Mapping[str, Any], claim: str, mapping_text: str) -> None:
    """Make a user a member of the groups that the claim names, and of no other group of the mapping.

    Memberships in groups outside of the mapping do not change. A missing claim counts as an empty list.
    """
    mapping, values = parse_mapping(mapping_text), read_values(claims.get(claim))
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
