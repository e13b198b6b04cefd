"""The routes of the index: built, updated, stopped, cleared, and how far that came."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.support.service import Client, Service, run_forked

WAIT_SECONDS = 120.0
ROUTES = (("POST", "build"), ("POST", "update"), ("POST", "stop"), ("POST", "clear"), ("GET", "progress"))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on a new data directory, without other clients."""
    with run_forked(tmp_path_factory.mktemp("index") / "data") as service:
        end = time.monotonic() + WAIT_SECONDS
        while progress(service.client())["last_done_time"] is None:  # the first build opens soon after the start
            assert time.monotonic() < end
            time.sleep(0.05)
        yield service


@pytest.fixture
def client(own: Service) -> Client:
    return own.client()


def progress(client: Client) -> dict[str, Any]:
    state: dict[str, Any] = client.get("/api/admin/index/progress")["data"]
    return state


def wait(client: Client) -> dict[str, Any]:
    """The progress when no run is under way."""
    end = time.monotonic() + WAIT_SECONDS
    while not (state := progress(client))["is_done"]:
        assert time.monotonic() < end, state
        time.sleep(0.02)
    return state


def find(client: Client, words: str) -> list[str]:
    body = {"parent": "/", "keywords": words, "scope": 0, "page": 1, "per_page": 100, "password": ""}
    return [row["name"] for row in client.ok("/api/fs/search", **body)["content"]]


def test_who_never_asked_has_an_index_from_the_first_start_on(own: Service, client: Client) -> None:
    state = wait(client)
    assert (set(state), state["error"]) == ({"obj_count", "is_done", "last_done_time", "error"}, "")
    settings = {row["key"]: row["value"] for row in client.get("/api/admin/setting/list")["data"]}
    assert (settings["search_index"], settings["auto_update_index"]) == ("database", "true")
    assert '"is_done":true' in settings["index_progress"]
    assert client.put("/files/a letter.txt", b"")["code"] == 200
    end = time.monotonic() + WAIT_SECONDS
    while find(client, "letter") != ["a letter.txt"]:  # a busy machine may need longer than a search waits
        assert time.monotonic() < end


def test_a_build_counts_what_it_finds_and_a_clear_forgets_it(own: Service, client: Client, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"folder {number}").mkdir()
        (tmp_path / f"folder {number}" / "invoice").touch()
    wait(client)
    with fixtures.local(client, tmp_path) as mount:
        wait(client)
        client.ok("/api/admin/index/build")
        before = wait(client)["obj_count"]
        assert before >= 60 and len(find(client, "invoice")) == 30
        (tmp_path / "invoice of today").touch()
        client.ok("/api/admin/index/update", paths=[mount], max_depth=1)
        assert wait(client)["obj_count"] == before + 1
        client.ok("/api/admin/index/clear")
        assert wait(client)["obj_count"] == 0
        assert find(client, "invoice") == []
    wait(client)
    client.ok("/api/admin/index/build")
    wait(client)


def test_what_does_not_run_cannot_be_stopped(own: Service, client: Client) -> None:
    wait(client)
    answer = client.post("/api/admin/index/stop")
    assert (answer["code"], answer["message"]) == (400, "index is not running")


def test_a_task_of_the_index_is_none_of_the_kinds_that_are_listed(own: Service, client: Client) -> None:
    wait(client)
    assert [client.get(f"/api/task/index/{verb}")["code"] for verb in ("undone", "done")] == [404, 404]


@pytest.mark.parametrize(
    ("body", "code"), [({"paths": "x"}, 400), ({"paths": ["/.."]}, 403), ({"paths": ["/"] * 2000}, 400)]
)
def test_an_update_of_what_is_no_path_is_refused(own: Service, client: Client, body: dict[str, Any], code: int) -> None:
    assert client.post("/api/admin/index/update", **body)["code"] == code


def test_without_an_index_there_is_no_such_thing(own: Service, client: Client) -> None:
    wait(client)
    with fixtures.settings(client, search_index="none"):
        for method, verb in ROUTES:
            sent = {} if method == "GET" else {"json": {}}
            answer = client.envelope(client.http.request(method, f"/api/admin/index/{verb}", **sent))
            assert (answer["code"], answer["message"]) == (404, "search not available")
    wait(client)
