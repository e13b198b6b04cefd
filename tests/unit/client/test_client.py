"""The client in front of services that answer in unusual ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mangrove.client import Client, ClientError, ConnectionFailed, TaskFailed

ADDRESS = "http://files.example.test"
Answer = Callable[[httpx.Request], httpx.Response]


def make_client(answer: Answer, token: str = "") -> Client:
    return Client(ADDRESS, token, transport=httpx.MockTransport(answer))


def envelope(data: Any, code: int = 200, problem: str = "", **headers: str) -> httpx.Response:
    body = {"code": code, "message": "message", "data": data} | ({"problem": problem} if problem else {})
    return httpx.Response(200, json=body, headers=headers)


@pytest.mark.parametrize("name", ["..", ".", "", "../../etc/passwd", "a/b", "a\0b"])
def test_names_that_lead_out_of_a_folder_are_refused(name: str) -> None:
    with make_client(lambda request: envelope({"content": [{"name": name}], "total": 1})) as client:
        with pytest.raises(ClientError, match="which no file has"):
            list(client.iter_folder("/files"))


def test_pages_of_a_folder_are_read_until_its_end() -> None:
    pages = [[{"name": "a"}, {"name": "b"}], [{"name": "c"}]]

    def answer(request: httpx.Request) -> httpx.Response:
        return envelope({"content": pages.pop(0), "total": 3})

    with make_client(answer) as client:
        assert [row["name"] for row in client.iter_folder("/files")] == ["a", "b", "c"]


def test_refusal_because_of_the_load_is_repeated() -> None:
    answers = [envelope(None, 429, "TooMany", **{"retry-after": "0"}), envelope({"id": 1})]
    with make_client(lambda request: answers.pop(0)) as client:
        assert client.me() == {"id": 1}


def test_failure_has_the_code_and_the_problem_of_the_answer() -> None:
    with make_client(lambda request: envelope(None, 500, "NotFound")) as client:
        with pytest.raises(ClientError, match="message") as failure:
            client.info("/files/a")
        assert (failure.value.code, failure.value.is_missing, failure.value.is_denied) == (500, True, False)
        assert not client.exists("/files/a")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"code": 200}', b""])
def test_answer_of_another_server_is_named(body: bytes) -> None:
    with make_client(lambda request: httpx.Response(200, content=body)) as client:
        with pytest.raises(ConnectionFailed, match="not as Mangrove does"):
            client.me()


def test_token_goes_to_the_service_and_not_to_the_address_of_a_file() -> None:
    sent: dict[str, str | None] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        sent[request.url.host] = request.headers.get("authorization")
        if request.url.host == "files.example.test":
            return envelope({"raw_url": "https://bucket.example.test/a?signature=x"})
        return httpx.Response(200, content=b"content")

    with make_client(answer, "secret") as client:
        assert client.read("/files/a") == b"content"
    assert sent == {"files.example.test": "secret", "bucket.example.test": None}


def test_wait_names_the_failure_of_a_task_and_reads_numbers_as_states() -> None:
    row = {"id": "1", "name": "copy", "progress": 40.0, "state": 7, "error": "the storage is full"}
    with make_client(lambda request: envelope([row])) as client:
        with pytest.raises(TaskFailed, match="copy: the storage is full"):
            client.wait("copy", "1")


@pytest.mark.parametrize(
    ("code", "problem", "is_denied"), [(403, "Exists", False), (403, "Denied", True), (401, "", True)]
)
def test_failure_that_names_a_taken_name_is_no_missing_right(code: int, problem: str, is_denied: bool) -> None:
    assert ClientError("message", code, problem).is_denied is is_denied
