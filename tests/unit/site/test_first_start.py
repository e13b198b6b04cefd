"""The first start on the real engine: whole in the end, whenever it was cut, and done once when it runs twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("records")


def start(folder: Path, given: str = "") -> str | None:
    from mangrove.site import first_start

    return first_start.run(folder, given, lambda plain: f"<{plain}>", 0x71FF)


def made() -> tuple[list[str], list[str]]:
    from mangrove.records import settings, storages, users

    assert len(settings.all()["token"]) >= 16
    return sorted(user.username for user in users.all()), [storage.mount_path for storage in storages.all()]


def test_of_two_first_starts_at_once_one_tells_the_password(tmp_path: Path) -> None:
    from mangrove.records import users

    with ThreadPoolExecutor(4) as pool:
        passwords = [told for told in pool.map(lambda _: start(tmp_path), range(4)) if told is not None]
    assert len(passwords) == 1
    assert made() == (["admin", "guest"], ["/files"])
    assert users.get(next(user.id for user in users.all() if user.role == 2)).password_hash == f"<{passwords[0]}>"


def test_a_first_start_that_was_cut_after_the_administrator_is_finished_by_the_next(tmp_path: Path) -> None:
    from mangrove.records import users

    users.create(username="admin", password_hash="kept", role=2)
    assert start(tmp_path, "another password") is None
    assert made() == (["admin", "guest"], ["/files"])
    assert next(user for user in users.all() if user.role == 2).password_hash == "kept"


def test_what_was_removed_or_renamed_since_is_not_made_again(tmp_path: Path) -> None:
    from mangrove.records import storages, users

    start(tmp_path, "a password")
    storages.delete(storages.all()[0].id)
    for user in users.all():
        users.change(user.id, username=f"{user.username}-renamed")
    assert start(tmp_path, "a password") is None
    assert made() == (["admin-renamed", "guest-renamed"], [])
