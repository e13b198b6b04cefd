"""The audit: a record of each sign-in and of each change of accounts, storages, settings, rules and share links."""

from __future__ import annotations

from enum import StrEnum

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_warning
from mangrove.identity.rights import Caller
from mangrove.records import audit as records
from mangrove.records.audit import AuditEntry

MAX_AUDIT_TARGET_LENGTH = 256


class AuditAction(StrEnum):
    """An action that is recorded."""

    SIGN_IN = "sign_in"
    SIGN_IN_REFUSED = "sign_in_refused"


def record(caller: Caller, action: AuditAction, target: str = "") -> None:
    """Record that a caller has done something. Call it after the effect, from a thread."""
    add(caller.user.username, caller.source, action, target)


def record_refused_sign_in(username: str, address: str, way: str) -> None:
    """Record that a sign-in was refused. The name of no user is left out: it may be a password."""
    is_known = username and users.find(username) is not None
    add(username if is_known else "", address, AuditAction.SIGN_IN_REFUSED, way)


def add(username: str, address: str, action: AuditAction, target: str) -> None:
    """Record an action. A request does not fail if that is not possible."""
    days = configuration.cached().settings.audit_days
    if not days:
        return
    clean_target = "".join(filter(str.isprintable, target))[:MAX_AUDIT_TARGET_LENGTH]
    try:
        records.add(AuditEntry(username, address, action, clean_target), days)
    except Problem as problem:
        log_warning("an action is missing in the audit", action=action, user=username, reason=problem.message)
