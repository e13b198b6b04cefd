"""Connections that are idle, slow or send too much before sign-in do not block other clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from mangrove.web.framework import MAX_UNGATED_JSON_BYTES
from tests.support.few_descriptors import FILES
from tests.support.service import Client, Service, run_service


@contextmanager
def connect(service: Service, address: str = "127.0.0.1") -> Iterator[socket.socket]:
    place = urlsplit(service.address)
    with socket.create_connection((place.hostname, place.port), 60, (address, 0)) as connection:
        yield connection


@pytest.fixture(scope="module")
def few_connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that may have few connections, started with a low limit of descriptors."""
    data, module = tmp_path_factory.mktemp("few") / "data", "tests.support.soft_descriptors"
    with run_service(data, module, MANGROVE_MAX_CONNECTIONS="40") as service:
        yield service


def test_the_service_raises_its_descriptors_to_the_hard_limit(few_connections: Service) -> None:
    for pid in few_connections.list_servers():
        limits = Path(f"/proc/{pid}/limits").read_text()
        soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
        assert soft == hard != str(FILES)


def test_three_hundred_idle_connections_leave_room_for_others(few_connections: Service) -> None:
    with ExitStack() as idle:
        for number in range(300):
            idle.enter_context(connect(few_connections, f"127.0.0.{1 + number // 100}"))
        assert httpx.get(f"{few_connections.address}/ping", timeout=60).text == "pong"
        for pid in few_connections.list_servers():
            assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < FILES // 2


def test_a_head_over_64_kib_is_refused_and_others_are_answered(service: Service) -> None:
    with connect(service) as connection:
        connection.sendall(b"GET /ping HTTP/1.1\r\nx: " + b"y" * 66_000 + b"\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 431"
    assert httpx.get(f"{service.address}/ping", headers={"x": "y" * 60_000}, timeout=60).text == "pong"


@pytest.mark.parametrize(
    ("path", "code"), [("/api/fs/list", 401), ("/api/admin/setting/save", 401), ("/api/auth/login", 413)]
)
def test_a_json_body_over_64_kib_is_not_read_before_the_gate(service: Service, path: str, code: int) -> None:
    """The answer comes while most of the body has not been sent."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: none\r\nContent-Length: {8 << 20}\r\n\r\n".encode()
    with connect(service) as connection:
        connection.sendall(head + b" " * (MAX_UNGATED_JSON_BYTES + 1))
        answer = connection.recv(4096)
        while not answer.endswith(b"}"):
            answer += connection.recv(4096)
    assert f'{{"code":{code},'.encode() in answer


def test_a_body_over_64_kib_of_a_caller_who_may_is_read(admin: Client, folder: str) -> None:
    names = [f"{number:0>200}" for number in range(10_000)]
    answer = admin.post("/api/fs/remove", dir=folder, names=names)
    assert answer["code"] != 413, answer
