"""What a new deployment needs before its first request: administrator, guest, token, a storage for files."""

from __future__ import annotations

import json
import os
import secrets
import string
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mangrove import configuration
from mangrove.configuration.values import make_link_salt, make_token
from mangrove.records import settings, storages, users
from mangrove.records.store.base import NameTaken

PASSWORD_LETTERS = 16
_LETTERS = string.ascii_letters + string.digits


def run(data: Path | None, given: str, hash_password: Callable[[str], str], permission: int) -> str | None:
    """Make what is missing; safe to repeat and to run twice at once.

    `data` is the data directory, None in the cloud; `given` the administrator's password, made up when empty;
    `permission` is the administrator's. Returns the password when it was made up here.
    """
    password, roles = None, {role for role in users.ROLES if any(True for _ in users.iter_ids(role, page_size=1))}
    if 1 not in roles:  # the guest is made last: where it exists, the rest was made before
        if 2 not in roles:
            password = _create_administrator(given, hash_password, permission)
        _create_files_storage(data)
        guest = {"username": "guest", "password_hash": hash_password("guest"), "role": 1, "disabled": True}
        _create_unless_taken(users.create, guest)
    if not settings.all().get("token"):
        index = {} if data is None else {"search_index": "database", "auto_update_index": "true"}
        settings.save({"token": make_token(), "link_salt": make_link_salt()} | index)
    configuration.get_sync()
    return password


def find_short_password() -> str | None:
    """The name of an administrator whose password is short."""
    administrator = users.find_by_role(2)
    return administrator.username if administrator is not None and administrator.has_short_password else None


def _create_administrator(given: str, hash_password: Callable[[str], str], permission: int) -> str | None:
    password = given or "".join(secrets.choice(_LETTERS) for _ in range(PASSWORD_LETTERS))
    admin = {"username": "admin", "password_hash": hash_password(password), "role": 2, "permission": permission}
    is_short = len(password) < users.SHORT_PASSWORD
    created = _create_unless_taken(users.create, admin | {"has_short_password": is_short})
    return password if created and not given else None


def _create_unless_taken(create: Callable[..., object], fields: dict[str, Any]) -> bool:
    """Whether the record was created here; False when another process was first."""
    try:
        create(**fields)
    except NameTaken:
        return False
    return True


def _create_files_storage(data: Path | None) -> None:
    bucket = os.environ.get("MANGROVE_FILES_BUCKET", "")
    addition: dict[str, Any]
    if data is not None:
        folder = data / "files"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        driver = "Local"
        addition = {"root_folder_path": str(folder.resolve()), "show_hidden": True, "mkdir_perm": "777"}
    elif bucket:
        region = os.environ.get("AWS_REGION", "us-east-1")
        driver = "S3"
        addition = {"bucket": bucket, "region": region, "endpoint": "", "root_folder_path": "/", "sign_url_expire": 4}
    else:
        return
    if any(storage.mount_path == "/files" for storage in storages.all()):
        return
    fields = {"mount_path": "/files", "driver": driver, "addition": json.dumps(addition), "cache_expiration": 30}
    fields |= {"status": "work", "webdav_policy": "native_proxy", "modified": datetime.now(UTC)}
    _create_unless_taken(storages.create, fields)
