"""The audit: a record of each sign-in and of each change of accounts, storages, settings, rules and share links."""

from __future__ import annotations

import time
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
    ACCOUNT_UPDATE = "account_update"
    SECOND_FACTOR_SET = "second_factor_set"
    SECOND_FACTOR_REMOVE = "second_factor_remove"
    PASSKEY_CREATE = "passkey_create"
    PASSKEY_DELETE = "passkey_delete"
    SSH_KEY_CREATE = "ssh_key_create"
    SSH_KEY_DELETE = "ssh_key_delete"
    TOKEN_CREATE = "token_create"
    TOKEN_DELETE = "token_delete"
    SESSION_END = "session_end"
    SESSIONS_END = "sessions_end"
    USER_CREATE = "user_create"
    USER_UPDATE = "user_update"
    USER_DELETE = "user_delete"
    GROUP_CREATE = "group_create"
    GROUP_UPDATE = "group_update"
    GROUP_DELETE = "group_delete"
    STORAGE_CREATE = "storage_create"
    STORAGE_UPDATE = "storage_update"
    STORAGE_DELETE = "storage_delete"
    STORAGE_ENABLE = "storage_enable"
    STORAGE_DISABLE = "storage_disable"
    SETTINGS_SAVE = "settings_save"
    SETTING_DELETE = "setting_delete"
    PERMANENT_TOKEN_REPLACE = "permanent_token_replace"
    RULE_CREATE = "rule_create"
    RULE_UPDATE = "rule_update"
    RULE_DELETE = "rule_delete"
    LOCK_DELETE = "lock_delete"
    SHARE_CREATE = "share_create"
    SHARE_UPDATE = "share_update"
    SHARE_DELETE = "share_delete"
    SHARE_ENABLE = "share_enable"
    SHARE_DISABLE = "share_disable"


def find_oldest_action() -> float:
    """Return the time of the oldest action that is listed; 0 if the settings do not limit it."""
    days = configuration.cached().settings.audit_days
    return time.time() - days * records.DAY_SECONDS if days else 0.0


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
