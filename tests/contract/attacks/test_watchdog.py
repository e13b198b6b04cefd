"""The largest requests of every route: none keeps the event loop for 50 milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from deployment.generate.api import import_functions
from tests.contract.attacks.largest import BY_HAND, NAMES, Request, list_heads, list_requests
from tests.contract.attacks.scene import EVERYTHING, PASSWORD, operations
from tests.support.service import Client, Service, run_service
from tests.support.watched import LIMIT, WATCH

pytestmark = pytest.mark.long


MAX_ATTEMPTS = 4  # a loaded machine may make one of them slow, also by the time of the processor
NO_REQUESTS = {
    "GET /api/auth/logout": "ends the session; it takes nothing but its header",
    "POST /api/admin/setting/reset_token": "takes nothing",
}
import_functions()
ROUTES = sorted(operations().keys() - NO_REQUESTS.keys())


def read_milliseconds(note: str) -> float:
    return float(note.partition(" ")[0])


class Watched:
    """A service in which every slow callback is noted."""

    def __init__(self, service: Service, notes: Path) -> None:
        self.service = service
        self.client = service.client()
        self.client.ok("/api/admin/meta/create", path="/files", hide="^hidden$", h_sub=True, write=True, w_sub=True)
        self.client.ok("/api/admin/user/create", username="u", password=PASSWORD, permission=int(EVERYTHING))
        self.user = service.client("u", PASSWORD)  # whom the rules bind
        self.anonymous = Client(service.address)
        self._notes = notes

    def list_slow(self, request: Request) -> list[str]:
        """The callbacks that were too slow while a request was answered."""
        before = self._notes.stat().st_size
        method, target, content, headers = request[1:]
        client = self.user if target.startswith("/api/fs/") else self.client
        if "authorization" in headers:
            client = self.anonymous
        answer = client.http.request(method, target, content=content or None, headers=dict(headers))
        assert answer.status_code < 500 or "/p/" in target or "/d/" in target or "/ae/" in target, answer.text[:500]
        assert "internal error" not in answer.text[:200]
        return self._notes.read_text()[before:].splitlines()

    def check(self, requests: Iterable[Request]) -> None:
        """Fail if a request has a slow callback whenever it is made."""
        slow = {}
        for request in requests:
            for _ in range(MAX_ATTEMPTS):
                slow_steps = self.list_slow(request)
                if slow_steps:
                    slow[request.why] = slow_steps
                if not slow_steps or max(map(read_milliseconds, slow_steps)) > 10_000 * LIMIT:
                    break  # it is fast, or so slow that no other try is needed, which may find nothing left to do
            if not slow_steps:
                slow.pop(request.why, None)
        assert not slow, f"more than {LIMIT * 1000:.0f} ms"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    notes = folder / "slow.txt"
    with run_service(folder / "data", "tests.support.watched", **{WATCH: str(notes)}) as service:
        notes.touch()
        files = service.data / "files"
        for made in ("many", "copies", "moved", "x"):
            (files / made).mkdir()
        for name in NAMES:
            (files / "many" / name).touch()
        (files / "moved" / NAMES[-1]).touch()  # which stops a move of all
        with ZipFile(files / "many.zip", "w") as archive:
            for name in NAMES:
                archive.writestr(f"{name[:200]}/{name}", "")
        yield Watched(service, notes)


@pytest.mark.parametrize("target", ["/ping", "/api/fs/list", "/d/files", "/none"])
def test_the_largest_heads_leave_the_event_loop_to_others(watched: Watched, target: str) -> None:
    watched.check(list_heads(target))


@pytest.mark.parametrize("route", ROUTES)
def test_the_largest_requests_of_a_route_leave_the_event_loop_to_others(watched: Watched, route: str) -> None:
    watched.check(list_requests(route))


def test_every_route_has_its_largest_requests() -> None:
    assert BY_HAND.keys() <= set(ROUTES)
    assert operations().keys() == set(ROUTES) | NO_REQUESTS.keys()
    for route in ROUTES:
        assert any(True for _ in list_requests(route)), route
