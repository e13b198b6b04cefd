"""What a new deployment needs before its first request: administrator, guest, token, a place for files."""

from __future__ import annotations

import json
import os
import secrets
import string
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from mangrove.problems import Problem
from mangrove.records import settings, storages, users
from mangrove.site import snapshot
from mangrove.site.values import new_token

PASSWORD_LETTERS = 16
_LETTERS = string.ascii_letters + string.digits


def run(data: Path | None, given: str, stored: Callable[[str], str], permission: int) -> str | None:
    """Make what is missing; safe to repeat and to run twice at once.

    `data` is the data directory, None in the cloud; `given` the administrator's password, made up when empty;
    `stored` turns a plain password into what is stored; `permission` is the administrator's. Answers the password
    when it was made up here.
    """
    password, roles = None, {user.role for user in users.all()}
    if 1 not in roles:  # the guest is made last: where he is, the rest was made before
        if 2 not in roles:
            password = _administrator(given, stored, permission)
        _mount(data)
        _once(lambda: users.create(username="guest", password_hash=stored("guest"), role=1, disabled=True), users.TAKEN)
    if not settings.all().get("token"):
        settings.save({"token": new_token()})
    snapshot.changed()
    return password


def _administrator(given: str, stored: Callable[[str], str], permission: int) -> str | None:
    password = given or "".join(secrets.choice(_LETTERS) for _ in range(PASSWORD_LETTERS))
    hashed = stored(password)
    made = _once(
        lambda: users.create(username="admin", password_hash=hashed, role=2, permission=permission), users.TAKEN
    )
    return password if made and not given else None


def _once(make: Callable[[], object], taken: str) -> bool:
    """Make something; False when another process was first."""
    try:
        make()
    except Problem as problem:
        if problem.message != taken:
            raise
        return False
    return True


def _mount(data: Path | None) -> None:
    bucket = os.environ.get("MANGROVE_FILES_BUCKET", "")
    if data is not None:
        folder = data / "files"
        folder.mkdir(parents=True, exist_ok=True)
        driver, addition = (
            "Local",
            {"root_folder_path": str(folder.resolve()), "show_hidden": True, "mkdir_perm": "777"},
        )
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
    _once(lambda: storages.create(**fields), storages.TAKEN)
