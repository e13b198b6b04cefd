"""The first start on the real engine: whole in the end, whenever it was cut, and done once when it runs twice."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mangrove import configuration
from mangrove.configuration import first_start
from mangrove.core.problems import Problem
from mangrove.records import settings, storages, users

pytestmark = pytest.mark.usefixtures("records")


def start(folder: Path, password: str = "") -> str | None:
    return first_start.run(folder, lambda: password, lambda plain: f"<{plain}>", 0x71FF)


def find_names() -> tuple[list[str], list[str]]:
    assert len(settings.all()["token"]) >= 16
    return sorted(user.username for user in users.all()), [storage.mount_path for storage in storages.all()]


def test_of_first_starts_at_once_one_returns_the_password(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        passwords = [password for password in pool.map(lambda _: start(tmp_path), range(4)) if password is not None]
    assert len(passwords) == 1
    assert find_names() == (["admin", "guest"], ["/files"])
    assert users.get(next(user.id for user in users.all() if user.role == 2)).password_hash == f"<{passwords[0]}>"


def test_interrupted_first_start_is_completed_by_next(tmp_path: Path) -> None:
    users.create(username="admin", password_hash="kept", role=2)
    assert start(tmp_path, "another password") is None
    assert find_names() == (["admin", "guest"], ["/files"])
    assert next(user for user in users.all() if user.role == 2).password_hash == "kept"


def test_what_was_removed_or_renamed_since_is_not_made_again(tmp_path: Path) -> None:
    start(tmp_path, "a password")
    storages.delete(storages.all()[0].id)
    for user in users.all():
        users.change(user.id, username=f"{user.username}-renamed")
    assert start(tmp_path, "a password") is None
    assert find_names() == (["admin-renamed", "guest-renamed"], [])


def test_the_configuration_is_loaded_afterwards(tmp_path: Path) -> None:
    start(tmp_path, "a password")
    assert sorted(user.username for user in users.all()) == ["admin", "guest"]
    assert configuration.cached().settings.token == settings.all()["token"]


def test_first_start_fails_on_other_error_with_taken_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**fields: object) -> None:
        raise Problem(users.TAKEN)

    monkeypatch.setattr(users, "create", refuse)
    with pytest.raises(Problem, match="is taken"):
        start(tmp_path, "a password")


def test_a_short_password_of_the_administrator_is_known_at_the_next_start(tmp_path: Path) -> None:
    start(tmp_path, "seven77")
    assert first_start.find_short_password() == "admin"
    admin = next(user for user in users.all() if user.role == 2)
    users.change(admin.id, has_short_password=False)
    assert first_start.find_short_password() is None


@pytest.mark.parametrize(("protection", "days"), [("on", first_start.TRASH_DAYS), ("off", None)])
def test_first_bucket_has_a_trash_if_it_has_versions(
    monkeypatch: pytest.MonkeyPatch, protection: str, days: int | None
) -> None:
    monkeypatch.setenv("MANGROVE_FILES_BUCKET", "files")
    monkeypatch.setenv("MANGROVE_PROTECTION", protection)
    first_start.run(None, lambda: "a password", lambda plain: f"<{plain}>", 0x71FF)
    (storage,) = storages.all()
    assert (storage.driver, json.loads(storage.addition).get("trash_days")) == ("S3", days)
