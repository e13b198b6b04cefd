"""Every route that creates tasks takes a key, standalone; `test_request_keys_in_cloud` has the functions."""

from __future__ import annotations

import pytest

from tests.contract import request_key_scenario
from tests.contract.api import fixtures
from tests.contract.api.task_client import wait_until
from tests.contract.request_key_scenario import REQUESTS, Answer, Request
from tests.contract.task_routes import CREATORS, CallGraph
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client


@pytest.mark.rest
def test_routes_that_can_create_tasks_take_a_key_and_are_tried() -> None:
    graph = CallGraph()
    routes, creators = graph.list_routes(), graph.find_callers(CREATORS)
    assert len(routes) > 150
    creating = {(route.method, route.path) for route in routes if route.function in creators}
    assert creating == {(route.method, route.path) for route in routes if route.takes_keys}
    assert creating == set(REQUESTS)


class Standalone:
    """The service on this computer."""

    def __init__(self, admin: Client, folder: str, url: str) -> None:
        self.folder = folder
        self.url = url
        self._admin = admin

    def send(self, request: Request) -> Answer:
        headers = {name.encode(): value.encode() for name, value in request.headers.items()}
        answer = self._admin.http.request(request.method, request.path, content=request.content, headers=headers)
        return Answer(answer.content, "idempotency-replayed" in answer.headers)

    def finish_tasks(self) -> None:
        wait_until(lambda: self._admin.get("/api/admin/index/progress")["data"]["is_done"])


@pytest.mark.usefixtures("allow_loopback")
@pytest.mark.parametrize("header", ["Idempotency-Key", "X-Request-Id"])
def test_repeated_request_to_any_route_gets_the_first_answer(
    admin: Client, folder: str, web: Origin, header: str
) -> None:
    url = web.at(f"/{header}", origin.file(b"f"))
    with fixtures.settings(admin, search_index="database"):
        request_key_scenario.run(Standalone(admin, folder, url), header)
