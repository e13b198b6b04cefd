"""The two dialects: where the document and existing clients differ, and nowhere else."""

from __future__ import annotations

from typing import Any, Literal

from mangrove.records.sshkeys import SshKey
from mangrove.records.users import User

OPENLIST = "openlist"


def fingerprint(text: str, dialect: str) -> str:
    """In full for existing clients, with its middle masked by the document."""
    return text if dialect == OPENLIST else f"{text[:12]}{'*' * max(len(text) - 16, 0)}{text[-4:]}"


def sshkey(key: SshKey, dialect: str) -> dict[str, Any]:
    """An SSH key's record."""
    return {
        "id": key.id,
        "title": key.title,
        "fingerprint": fingerprint(key.fingerprint, dialect),
        "added_time": key.added,
        "last_used_time": key.last_used,
    }


def deleted_setting(dialect: str) -> dict[str, Any] | None:
    """What setting/delete answers."""
    return None if dialect == OPENLIST else {}


def transferred(verb: Literal["Move", "Copy"], dialect: str) -> dict[str, Any] | None:
    """What a move or copy that was done at once answers."""
    return {"message": f"{verb} operations completed immediately"} if dialect == OPENLIST else None


def flattened(count: int, dialect: str) -> str:
    """The message of a recursive move; the document knows but one message of success."""
    return f"Successfully moved {count} {'file' if count == 1 else 'files'}" if dialect == OPENLIST else "success"


def user(one: User) -> dict[str, Any]:
    """A user's record, the same in both dialects; the password is never shown."""
    return {
        "id": one.id,
        "username": one.username,
        "password": "",
        "base_path": one.base_path,
        "role": one.role,
        "disabled": one.disabled,
        "permission": one.permission,
        "sso_id": one.sso_id,
        "allow_ldap": one.allow_ldap,
    }
