"""Changes by one function reach the others within the two seconds that they trust their snapshot."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.scenarios import EVENTS
from tests.support import lambdas

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("instances")]  # one deployment of its own

SNAPSHOT_SECONDS = 2.0
MARGIN_SECONDS = 0.5
CALL_SECONDS = 10.0  # for the calls themselves on a loaded machine


@pytest.fixture(scope="module")
def cloud() -> Iterator[lambdas.Cloud]:
    with lambdas.deploy(snapshot_seconds=str(SNAPSHOT_SECONDS)) as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        yield cloud


def call(cloud: lambdas.Cloud, sample: str, token: str = "", query: str = "", **body: Any) -> dict[str, Any]:
    """The envelope of a sample with another token, query and body."""
    event = json.loads((EVENTS / f"{sample}.json").read_text())
    event["headers"]["authorization"] = token
    event |= {"body": json.dumps(body), "rawQueryString": query}
    answer: dict[str, Any] = json.loads(
        cloud.get_function_in(f"functions/api/{sample.partition('/')[0]}")(event)["body"]
    )
    return answer


def login(cloud: lambdas.Cloud, username: str, password: str) -> str:
    answer = call(cloud, "auth/login", username=username, password=password)
    assert answer["code"] == 200, answer
    token: str = answer["data"]["token"]
    return token


def refused_after(cloud: lambdas.Cloud, token: str) -> tuple[float, str]:
    """Seconds until the files function refuses the token, and its message."""
    began = time.monotonic()
    while (answer := call(cloud, "files/list", token, path="/"))["code"] == 200:
        assert time.monotonic() - began < SNAPSHOT_SECONDS + 2 * CALL_SECONDS
        time.sleep(0.05)
    return time.monotonic() - began, answer["message"]


def test_disabling_a_new_password_and_a_logout_reach_other_functions(cloud: lambdas.Cloud) -> None:
    admin = login(cloud, "admin", lambdas.ADMIN_PASSWORD)
    user = {"username": "ann", "password": "a first password", "base_path": "/", "role": 0, "permission": 0}
    assert call(cloud, "users/create", admin, **user)["code"] == 200
    time.sleep(SNAPSHOT_SECONDS + MARGIN_SECONDS)
    number = {"id": 3}

    token = login(cloud, "ann", user["password"])
    assert call(cloud, "files/list", token, path="/")["code"] == 200
    assert call(cloud, "users/update", admin, **(user | number | {"password": "another password"}))["code"] == 200
    seconds, message = refused_after(cloud, token)
    assert (message, seconds < SNAPSHOT_SECONDS + CALL_SECONDS) == ("Password has been changed, login please", True)

    token = login(cloud, "ann", "another password")
    assert call(cloud, "files/list", token, path="/")["code"] == 200
    assert call(cloud, "auth/logout", token)["code"] == 200
    seconds, message = refused_after(cloud, token)
    assert (message, seconds < SNAPSHOT_SECONDS + CALL_SECONDS) == ("token is invalidated", True)

    token = login(cloud, "ann", "another password")
    assert call(cloud, "files/list", token, path="/")["code"] == 200
    disabled = user | number | {"password": "", "disabled": True}
    assert call(cloud, "users/update", admin, **disabled)["code"] == 200
    seconds, message = refused_after(cloud, token)
    assert (message, seconds < SNAPSHOT_SECONDS + CALL_SECONDS) == ("Current user is disabled, replace please", True)


def names(cloud: lambdas.Cloud, token: str, path: str) -> list[str]:
    answer = call(cloud, "files/list", token, path=path)
    assert answer["code"] == 200, answer
    return sorted(entry["name"] for entry in answer["data"]["content"])


def test_what_one_function_stores_is_listed_by_another(cloud: lambdas.Cloud) -> None:
    admin = login(cloud, "admin", lambdas.ADMIN_PASSWORD)
    upload = json.loads((EVENTS / "uploads/put.json").read_text())
    upload["headers"] |= {"authorization": admin, "as-task": "false"}
    shown: list[list[str]] = []
    for name, wait in (("first.txt", 0.0), ("second.txt", SNAPSHOT_SECONDS + MARGIN_SECONDS)):
        upload["headers"]["file-path"] = f"/files/instances/{name}"
        answer = json.loads(cloud.get_function_in("functions/api/uploads")(upload)["body"])
        assert answer["code"] == 200, answer
        time.sleep(wait)
        shown.append(names(cloud, admin, "/files/instances"))
    assert shown == [["first.txt"], ["first.txt", "second.txt"]]
