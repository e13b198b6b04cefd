"""The records that a new deployment needs before its first request: administrator, guest, token, a storage."""

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

PASSWORD_LENGTH = 16
TRASH_DAYS = 30  # of the first storage; others are made with 0 unless the form says more
_LETTERS = string.ascii_letters + string.digits


def run(
    data: Path | None, choose_password: Callable[[], str], hash_password: Callable[[str], str], permission: int
) -> str | None:
    """Create the missing records. It can be repeated and run in several processes.

    `data` is the data directory, None in the cloud. `choose_password` and `permission` are for the administrator;
    if the chosen password is empty, a random one is set and returned.
    """
    password, roles = None, {role for role in users.ROLES if any(True for _ in users.iter_ids(role, page_size=1))}
    if 1 not in roles:  # the guest is created last: if it exists, so does the rest
        if 2 not in roles:
            password = _create_administrator(choose_password(), hash_password, permission)
        _create_files_storage(data)
        guest = {"username": "guest", "password_hash": hash_password("guest"), "role": 1, "disabled": True}
        _create_unless_taken(users.create, guest)
    if not settings.all().get("token"):
        index = {} if data is None else {"search_index": "database", "auto_update_index": "true"}
        settings.save({"token": make_token(), "link_salt": make_link_salt()} | index)
    configuration.get_sync()
    return password


def find_short_password() -> str | None:
    """Return the name of the administrator if the password is short."""
    administrator = users.find_by_role(2)
    return administrator.username if administrator is not None and administrator.has_short_password else None


def _create_administrator(chosen_password: str, hash_password: Callable[[str], str], permission: int) -> str | None:
    password = chosen_password or "".join(secrets.choice(_LETTERS) for _ in range(PASSWORD_LENGTH))
    admin = {"username": "admin", "password_hash": hash_password(password), "role": 2, "permission": permission}
    is_short = len(password) < users.SHORT_PASSWORD
    created = _create_unless_taken(users.create, admin | {"has_short_password": is_short})
    return password if created and not chosen_password else None


def _create_unless_taken(create: Callable[..., object], fields: dict[str, Any]) -> bool:
    """Create a record. Return False if another process was first."""
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
        addition["trash_days"] = TRASH_DAYS
    elif bucket:
        region = os.environ.get("AWS_REGION", "us-east-1")
        driver = "S3"
        addition = {"bucket": bucket, "region": region, "endpoint": "", "root_folder_path": "/", "sign_url_expire": 4}
        if os.environ.get("MANGROVE_PROTECTION") == "on":  # with it, the template gives the bucket versions
            addition["trash_days"] = TRASH_DAYS
    else:
        return
    if any(storage.mount_path == "/files" for storage in storages.all()):
        return
    fields = {"mount_path": "/files", "driver": driver, "addition": json.dumps(addition), "cache_expiration": 30}
    fields |= {"status": "work", "webdav_policy": "native_proxy", "modified": datetime.now(UTC)}
    _create_unless_taken(storages.create, fields)
