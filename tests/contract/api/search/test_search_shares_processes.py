"""The search of visitors of share links at a service of two processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.standalone.figures import INDEX_NAME
from tests.contract.api.search_client import build_index
from tests.contract.api.test_shared_races import Answer, Visitors
from tests.contract.attacks.scene import add_rule
from tests.support.proc import list_children, read_if_there
from tests.support.service import Client, Service, run_forked

SEARCHES = 60
BUSY_CODE = 429
FILES = ("docs/plan.txt", "docs/deep/plan b.txt", "docs/hidden/plan c.txt", "plan d.txt")
PLAN_NAMES = {"plan.txt", "plan b.txt", "plan c.txt"}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("two") / "data", MANGROVE_PROCESSES="2") as service:
        yield service


@pytest.fixture(scope="module")
def admin(two_processes: Service) -> Client:
    """The administrator of a service with an index."""
    admin = two_processes.client()
    for path in FILES:
        assert admin.put(f"/files/{path}", path.encode())["code"] == 200
    build_index(admin)
    return admin


class Searches:
    """Searches in a share link at both processes."""

    def __init__(self, service: Service, id: str) -> None:
        self._visitors = Visitors(service)
        self._body = json.dumps({"parent": f"/@s/{id}", "keywords": "plan", "page": 1, "per_page": 100}).encode()

    def _search(self, number: int) -> Answer:
        source, headers = f"127.0.9.{number % 3 + 1}", {"content_type": "application/json"}
        while True:
            answer = self._visitors.send(source, "POST", "/api/fs/search", self._body, **headers)
            if json.loads(answer[1])["code"] != BUSY_CODE:  # one caller searches once at a time, the others wait
                return answer

    def find(self) -> set[tuple[int, frozenset[str]]]:
        """Return the distinct answers of both processes: the code and the names."""
        envelopes = [json.loads(text) for _, text, _ in self._visitors.race(lambda: self._search, SEARCHES)]
        return {
            (envelope["code"], frozenset(row["name"] for row in (envelope["data"] or {}).get("content", ())))
            for envelope in envelopes
        }


def test_both_processes_find_what_a_share_shows_at_that_moment(two_processes: Service, admin: Client) -> None:
    id = admin.ok("/api/share/create", files=["/files/docs"])["id"]
    searches = Searches(two_processes, id)
    assert searches.find() == {(200, frozenset(PLAN_NAMES))}
    with add_rule(admin, "/files/docs", hide="hidden", h_sub=True):
        assert searches.find() == {(200, frozenset(PLAN_NAMES - {"plan c.txt"}))}
    assert searches.find() == {(200, frozenset(PLAN_NAMES))}
    admin.ok("/api/share/disable", params={"id": id})
    assert searches.find() == {(500, frozenset())}


def find_index_process(service: Service) -> int:
    """Return the process of the search index, of which there is one."""
    names = {pid: read_if_there(Path(f"/proc/{pid}/comm")).strip() for pid in list_children(service.process.pid)}
    (index_pid,) = (pid for pid, name in names.items() if name == INDEX_NAME.encode())
    return index_pid


def test_searches_go_on_when_the_process_of_the_index_dies(two_processes: Service, admin: Client) -> None:
    searches = Searches(two_processes, admin.ok("/api/share/create", files=["/files/docs"])["id"])
    assert searches.find() == {(200, frozenset(PLAN_NAMES))}
    killed = find_index_process(two_processes)
    os.kill(killed, signal.SIGKILL)
    assert searches.find() == {(200, frozenset(PLAN_NAMES))}
    assert find_index_process(two_processes) != killed
