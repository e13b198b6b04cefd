"""Visits and uploads of share links that two processes of a service count together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from mangrove.records.open_uploads import MAX_OPEN_UPLOADS_PER_SENDER
from tests.support.proc import find_server
from tests.support.service import Client, Service, run_forked

THREADS = 24
MAX_RACES = 10
Answer = tuple[int, str, int]
"""The status, the body, and the process that answered."""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("two") / "data", MANGROVE_PROCESSES="2") as service:
        yield service


@pytest.fixture(scope="module")
def admin(two_processes: Service) -> Client:
    admin = two_processes.client()
    admin.ok("/api/fs/mkdir", path="/files/shared")
    return admin


class Visitors:
    """Visitors whose requests come from addresses of their own, each on a new connection."""

    def __init__(self, service: Service) -> None:
        url = urlsplit(service.address)
        self._host, self._port = url.hostname or "", url.port or 0
        self._pids = service.list_servers()

    def send(self, source: str, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        connection = HTTPConnection(self._host, self._port, timeout=60, source_address=(source, 0))
        try:
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, text, find_server(self._pids, self._port, connection.sock.getsockname()[1]) or 0
        finally:
            connection.close()

    def race(self, make_work: Callable[[], Callable[[int], Answer]], count: int) -> list[Answer]:
        """Do new work `count` times in parallel, and again while one process stands still: both answer some."""
        assert len(self._pids) == 2
        for _ in range(MAX_RACES):
            with ThreadPoolExecutor(THREADS) as pool:
                answers = list(pool.map(make_work(), range(count)))
            if {pid for _, _, pid in answers} >= set(self._pids):
                return answers
        raise AssertionError("one process answered everything")


@pytest.fixture
def visitors(two_processes: Service) -> Visitors:
    return Visitors(two_processes)


def test_first_visits_at_two_processes_are_never_more_than_allowed(admin: Client, visitors: Visitors) -> None:
    ids: list[str] = []

    def make_visit() -> Callable[[int], Answer]:
        ids.append(admin.ok("/api/share/create", files=["/files/shared"], max_accessed=20)["id"])
        body = json.dumps({"path": f"/@s/{ids[-1]}"}).encode()
        return lambda number: visitors.send(f"127.1.{number // 200}.{number % 200 + 1}", "POST", "/api/fs/list", body)

    codes = [json.loads(text)["code"] for _, text, _ in visitors.race(make_visit, 200)]
    assert codes.count(200) == 20 and codes.count(500) == 180
    assert admin.get("/api/share/get", id=ids[-1])["data"]["accessed"] == 20


def test_files_sent_to_two_processes_are_never_more_than_allowed(admin: Client, visitors: Visitors) -> None:
    folders: list[str] = []

    def make_send() -> Callable[[int], Answer]:
        folders.append(f"/files/dropped {len(folders)}")
        admin.ok("/api/fs/mkdir", path=folders[-1])
        fields = {"mode": "drop", "max_files": 30, "max_total_size": 1000}
        id = admin.ok("/api/share/create", files=[folders[-1]], **fields)["id"]
        return lambda number: visitors.send("127.2.0.1", "PUT", f"/sd/{id}/{number}.bin", b"x" * 100)

    statuses = [status for status, _, _ in visitors.race(make_send, 60)]
    assert statuses.count(201) == 10 and statuses.count(413) == 50
    assert admin.ok("/api/fs/list", path=folders[-1], refresh=True)["total"] == 10


def test_uploads_begun_at_two_processes_are_never_more_than_allowed(admin: Client, visitors: Visitors) -> None:
    sources = iter(range(1, MAX_RACES + 1))

    def make_begin() -> Callable[[int], Answer]:
        id, source = admin.ok("/api/share/create", files=["/files/shared"], mode="drop")["id"], next(sources)

        def begin(number: int) -> Answer:
            headers = {"file_path": f"/@s/{id}/{number}.bin", "x_file_size": "3"}
            return visitors.send(f"127.3.0.{source}", "POST", "/api/fs/multipart/init", **headers)

        return begin

    answers = visitors.race(make_begin, MAX_OPEN_UPLOADS_PER_SENDER + 30)
    codes = [json.loads(text)["code"] for _, text, _ in answers]
    assert codes.count(200) == MAX_OPEN_UPLOADS_PER_SENDER and codes.count(429) == 30
