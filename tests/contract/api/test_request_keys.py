"""Requests with a key over HTTP: repeated, they get the first answer and create nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.api.offline_download_client import KIND, ROUTE
from tests.contract.api.task_client import TaskClient
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client

pytestmark = pytest.mark.usefixtures("allow_loopback")
KEYS = ["Idempotency-Key", "X-Request-Id"]


def send(client: Client, path: str, key: str, value: str, body: dict[str, Any]) -> httpx.Response:
    return client.http.post(path, json=body, headers={key: value})


@pytest.mark.parametrize("key", KEYS)
def test_repeated_request_gets_the_first_answer_and_no_second_task(owner: TaskClient, web: Origin, key: str) -> None:
    body = {"urls": [web.at("/f", origin.file(b"f"))], "path": owner.folder, "tool": "SimpleHttp"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: send(owner.client, ROUTE, key, "once", body), range(4)))
    answers.append(send(owner.client, ROUTE, key, "once", body))
    bodies = [answer.json() for answer in answers]
    successes = [answer for answer in bodies if answer["code"] == 200]
    assert {answer["code"] for answer in bodies} <= {200, 409} and bodies[-1]["code"] == 200
    assert all(answer == successes[0] for answer in successes)
    assert "idempotency-replayed" in answers[-1].headers
    assert len(owner.wait_for_all(KIND)) == 1


def test_key_of_another_request_is_refused_and_a_request_id_is_not(owner: TaskClient, web: Origin) -> None:
    bodies = [
        {"urls": [web.at(f"/{name}", origin.file(b"f"))], "path": owner.folder, "tool": "SimpleHttp"} for name in "ab"
    ]
    first, other = (send(owner.client, ROUTE, "Idempotency-Key", "key", body).json() for body in bodies)
    assert (first["code"], other["code"]) == (200, 400)
    assert other["message"] == "the Idempotency-Key was used for another request"
    first, other = (send(owner.client, ROUTE, "X-Request-Id", "key", body).json() for body in bodies)
    assert (first["code"], other["code"]) == (200, 200) and first["data"] != other["data"]


def test_failed_request_can_be_repeated_with_its_key(admin: Client, folder: str) -> None:
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["f"]}
    admin.ok("/api/fs/mkdir", path=f"{folder}/to")
    assert send(admin, "/api/fs/copy", "Idempotency-Key", "again", body).json()["code"] != 200
    admin.put(f"{folder}/f", b"f")
    assert send(admin, "/api/fs/copy", "Idempotency-Key", "again", body).json()["code"] == 200


def test_upload_with_a_key_is_stored_once(admin: Client, folder: str) -> None:
    headers = {"File-Path": f"{folder}/u", "As-Task": "true", "Idempotency-Key": "upload"}
    first, again = (admin.http.put("/api/fs/put", content=b"bytes", headers=headers).json() for _ in range(2))
    assert first["code"] == 200 and first == again


def test_key_of_too_many_characters_is_refused(admin: Client, folder: str) -> None:
    body = {"dir": folder, "names": ["f"]}
    admin.put(f"{folder}/f", b"f")
    refused, taken = (
        send(admin, "/api/fs/remove", "Idempotency-Key", "x" * length, body).json() for length in (256, 255)
    )
    assert (refused["code"], refused["message"]) == (400, "Idempotency-Key may have at most 255 characters")
    assert taken["code"] == 200
