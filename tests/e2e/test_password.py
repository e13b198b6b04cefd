"""`mangrove password`, beside a running service and alone."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

from tests.e2e.processes import change_password, refuse_to_run
from tests.support.service import Client, Service
from tests.support.waiting import wait_until


def create_user(admin: Client) -> str:
    """The name of a new user."""
    name = uuid4().hex
    admin.ok("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
    return name


def test_a_password_given_to_a_running_service_counts_at_once(service: Service, admin: Client) -> None:
    user, other = create_user(admin), service.client()
    old = service.client(user, "pw")
    assert change_password(service.data, user, "new one") == f"The password of {user} is changed"
    wait_until(lambda: old.get("/api/me")["code"] == 401)
    assert old.get("/api/me")["message"] == "Password has been changed, login please"
    assert Client(service.address).post("/api/auth/login", username=user, password="pw")["code"] == 401
    assert service.client(user, "new one").get("/api/me")["data"]["username"] == user
    assert other.get("/api/me")["code"] == 200


def test_a_password_is_made_up_and_shown_when_none_is_typed(service: Service, admin: Client) -> None:
    user = create_user(admin)
    match = re.fullmatch(rf"The new password of {user} is (\S{{12,}})", change_password(service.data, user, ""))
    assert match
    login = {"username": user, "password": match[1]}
    wait_until(lambda: Client(service.address).post("/api/auth/login", **login)["code"] == 200)


def test_a_password_for_an_unknown_user_is_refused(service: Service, admin: Client) -> None:
    assert refuse_to_run("password", "unknown here", "--data", str(service.data)) == "there is no user unknown here"


def test_a_password_that_is_too_long_is_refused(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    line = refuse_to_run("serve", "--port", "0", "--data", data, MANGROVE_ADMIN_PASSWORD="x" * 2000)
    assert line == "a password may have at most 1024 characters"
