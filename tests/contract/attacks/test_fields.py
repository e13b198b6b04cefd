"""Integers, addresses and texts that are none, in every field of every route: refused, and never an internal error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deployment.generate.api import import_functions
from tests.contract.attacks.scene import check_answer, operations
from tests.support.document import get_document
from tests.support.service import Client

NUMBERS = ["--3", "9" * 30, "1e400"]
ADDRESSES = ["http://xn--a/", "http://[", "http://a:99999/"]
TEXTS = [*ADDRESSES, "--3", "\0{", "magnet:?xt=1"]
VALUES = [-1, 2**64, 1.5, "--3", [], {}]
ENDS_THE_SESSION = {"GET /api/auth/logout", "POST /api/admin/setting/reset_token"}
import_functions()
ROUTES = sorted(operations().keys() - ENDS_THE_SESSION)


def resolve(schema: Any) -> Any:
    while "$ref" in schema:
        schema = get_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def list_odd_bodies(schema: Any) -> Iterator[Any]:
    """Bodies with one field each that does not fit; the others are absent."""
    schema = resolve(schema)
    if schema.get("type") == "array":
        for item in [*VALUES, *TEXTS, *list_odd_bodies(schema["items"])]:
            yield [item]
    for key, field in schema.get("properties", {}).items():
        for value in TEXTS if resolve(field).get("type") == "string" else VALUES:
            yield {key: value}
        if resolve(field).get("type") == "array":
            for items in list_odd_bodies(field):
                yield {key: items}


def send(client: httpx.Client, method: str, target: str, **options: Any) -> None:
    """Send a request and check its answer. Of a stream of events, which has no end, only the status is checked."""
    with client.stream(method, target, **options) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            assert answer.status_code == 200
            return
        answer.read()
    check(answer)


def check(answer: httpx.Response) -> None:
    if answer.headers["content-type"].startswith("application/json") and answer.status_code == 200:
        check_answer(answer)
    else:
        assert answer.status_code < 600 and "internal error" not in answer.text
        assert "Internal Server Error" not in answer.text


@pytest.fixture
def who(admin: Client) -> Iterator[Client]:
    """The administrator by the permanent token, whatever name a request gives them; it is given back."""
    token = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    client = Client(admin.address, token)
    yield client
    client.ok("/api/me/update", username="admin")


@pytest.mark.parametrize("name", ROUTES)
def test_no_odd_field_is_an_internal_error(who: Client, name: str) -> None:
    method, _, route = name.partition(" ")
    operation = operations()[name]
    target = route.replace("{kind}", "copy").replace("{path}", "files")
    for field in operation.get("parameters", ()):
        for odd in NUMBERS + ADDRESSES:
            if field["in"] == "query":
                send(who.http, method, target, params={field["name"]: odd})
            elif field["in"] == "header" and field["name"] != "Content-Length":
                send(who.http, method, target, headers={"file-path": "/x", field["name"]: odd})
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    for body in list_odd_bodies(content["schema"]) if content else ():
        send(who.http, method, target, content=json.dumps(body))


PAGED = [
    "/api/admin/user/list", "/api/admin/storage/list", "/api/admin/meta/list", "/api/admin/lock/list",
    "/api/task/copy/done", "/api/task/copy/undone", "/api/admin/task/copy/done", "/api/admin/task/copy/undone",
]  # fmt: skip


@pytest.mark.parametrize("route", PAGED)
def test_a_page_that_is_no_number_answers_400_and_a_huge_one_is_empty(admin: Client, route: str) -> None:
    for number in ("--3", "+-3", "3-", "9" * 19, "1" + "0" * 400):
        for key in ("page", "per_page"):
            assert admin.get(route, **{key: number})["code"] == 400
    huge = admin.get(route, page=str(10**17), per_page=str(10**17))
    assert huge["code"] == 200
    assert not (huge["data"]["content"] if isinstance(huge["data"], dict) else huge["data"])


@pytest.mark.parametrize("url", ["http://xn--a/", "http://xn--a-/x", "http://[", "http://[::1", "https://a:b/"])
def test_an_address_that_is_none_answers_400_for_an_offline_download(admin: Client, url: str) -> None:
    answer = admin.post("/api/fs/add_offline_download", path="/files", urls=[url], tool="SimpleHttp")
    assert answer["code"] == 400, answer


def test_a_file_of_a_tree_whose_address_is_none_is_a_failure_in_words(admin: Client) -> None:
    tree = json.dumps({"url_structure": "f:http://xn--a/", "head_size": True})
    id = admin.ok("/api/admin/storage/create", mount_path="/odd-tree", driver="UrlTree", addition=tree, web_proxy=True)[
        "id"
    ]
    try:
        for path in ("/d/odd-tree/f", "/p/odd-tree/f"):
            answer = admin.http.get(path, follow_redirects=False)
            assert answer.status_code in (302, 400, 401, 500)
            assert "internal error" not in answer.text
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": id})
