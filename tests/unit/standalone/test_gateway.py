"""The application that answers a request, and the work beside the answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from mangrove.core.problems import RecordsUnavailable
from mangrove.standalone import gateway as standalone_gateway
from mangrove.standalone.gateway import Gateway, import_app
from mangrove.tasks.index import indexing
from mangrove.tree import mounts
from tests.support.platforms import use_standalone


@pytest.fixture(scope="module")
def gateway() -> Gateway:
    return Gateway()


def send(gateway: Gateway, method: str, path: str) -> httpx.Response:
    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://mangrove") as client:
            return await client.request(method, path)

    return asyncio.run(go())


@pytest.mark.parametrize("path", ["/ping", "/openlist/ping"])
def test_an_exact_path_goes_to_its_function(gateway: Gateway, path: str) -> None:
    assert send(gateway, "GET", path).text == "pong"
    assert send(gateway, "HEAD", path).status_code == 200


@pytest.mark.parametrize("path", ["/none", "/api/none", "/ping/more", "/d", "/d/", "/api/task/copy"])
def test_any_other_path_is_the_default_functions(gateway: Gateway, path: str) -> None:
    answer = send(gateway, "GET", path)
    assert answer.json()["message"] == f"no route for GET {path}"


def test_a_method_that_a_path_has_not_is_the_default_functions(gateway: Gateway) -> None:
    assert send(gateway, "DELETE", "/ping").json()["message"] == "no route for DELETE /ping"


@pytest.mark.parametrize(
    ("method", "path", "group"),
    [("GET", "/d/a/b", "downloads"), ("HEAD", "/p/x", "downloads"), ("POST", "/api/task/copy/cancel", "tasks"),
     ("GET", "/openlist/d/a", "downloads"), ("PUT", "/api/fs/put", "uploads"), ("POST", "/api/fs/list", "files")],
)  # fmt: skip
def test_parameters_and_rests_of_paths_lead_to_their_function(
    gateway: Gateway, method: str, path: str, group: str
) -> None:
    assert gateway.find_app(method, path) is import_app(f"functions/api/{group}").app


def test_the_documents_are_served_beside_the_functions(gateway: Gateway) -> None:
    assert json.loads(send(gateway, "GET", "/openapi.json").content)["info"]["title"] == "Mangrove"
    assert send(gateway, "GET", "/docs").headers["content-type"].startswith("text/html")


def test_a_function_is_the_module_app_of_its_folder() -> None:
    module = import_app("functions/api/site")
    assert module.__name__ == "functions.api.site.app"
    assert import_app("functions/api/site") is module


class FailingTwice:
    """Work that the records engine does not answer the first two times."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_done = asyncio.Event()

    async def __call__(self) -> None:
        self.calls += 1
        if self.calls <= 2:
            raise RecordsUnavailable
        self.is_done.set()


def test_work_of_the_start_is_repeated_until_the_records_answer(
    gateway: Gateway, records: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_standalone(tmp_path)
    monkeypatch.setattr(standalone_gateway, "FIRST_REPEAT_SECONDS", 0.01)

    async def go() -> tuple[int, int]:
        loading, repairing, ending = FailingTwice(), FailingTwice(), asyncio.Event()
        monkeypatch.setattr(mounts, "load", loading)
        monkeypatch.setattr(indexing, "repair", repairing)
        messages = iter(["lifespan.startup"])

        async def receive() -> dict[str, str]:
            if (kind := next(messages, None)) is None:
                await ending.wait()
            return {"type": kind or "lifespan.shutdown"}

        async def send(message: object) -> None:
            pass

        running = asyncio.ensure_future(gateway({"type": "lifespan"}, receive, send))
        await asyncio.wait_for(asyncio.gather(loading.is_done.wait(), repairing.is_done.wait()), 120)
        ending.set()
        await running
        return loading.calls, repairing.calls

    assert asyncio.run(go()) == (3, 3)
