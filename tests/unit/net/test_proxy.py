"""The guarded proxy: who may use it, for what, and where it leads."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator

import pytest

from mangrove.core import runtime
from mangrove.net.addresses import AddressPolicy
from mangrove.net.proxy import GuardedProxy, ProxyAccess
from tests.support import origin
from tests.support.origin import Origin
from tests.unit.net.conftest import Names

LOOPBACK_POLICY = AddressPolicy.parse("127.0.0.2")


@pytest.fixture
def proxy() -> Iterator[GuardedProxy]:
    with runtime.use(runtime.Runtime()):
        yield runtime.get(GuardedProxy)


@pytest.fixture
def both() -> Iterator[tuple[Origin, Origin]]:
    """One that may be reached and one that may not, with the same port."""
    with origin.neighbors("127.0.0.2", "127.0.0.1") as neighbors:
        neighbors[0].at("/", origin.file(b"public"))
        yield neighbors


@pytest.fixture
def web(both: tuple[Origin, Origin]) -> Origin:
    return both[0]


def send(access: ProxyAccess, request: str, *, password: str | None = None, more: bytes = b"") -> bytes:
    """Everything that is answered to a request head."""
    known = f"{access.user}:{access.password if password is None else password}"
    head = f"{request}\r\nProxy-Authorization: Basic {base64.b64encode(known.encode()).decode()}\r\n\r\n"
    host, port = access.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(head.encode())
        received = b""
        while block := connection.recv(65536):
            received += block
            if more and b" 200 " in received and received.endswith(b"\r\n\r\n"):
                connection.sendall(more)
                more = b""
        return received


def get(access: ProxyAccess, target: str) -> bytes:
    """Return the answer of a web server behind the proxy."""
    return send(access, f"CONNECT {target} HTTP/1.1", more=b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")


def find_target(web: Origin) -> str:
    return web.address.removeprefix("http://")


def test_what_the_policy_permits_is_reached(proxy: GuardedProxy, web: Origin) -> None:
    answer = get(proxy.open(LOOPBACK_POLICY), find_target(web))
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 ") and answer.endswith(b"public")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::1]", "169.254.169.254", "10.0.0.1"])
def test_nothing_else_is_reached(proxy: GuardedProxy, both: tuple[Origin, Origin], host: str) -> None:
    web, inside = both
    assert get(proxy.open(LOOPBACK_POLICY), f"{host}:{find_target(web).rpartition(':')[2]}").startswith(
        b"HTTP/1.1 403 "
    )
    assert inside.requests == []


def test_a_name_is_resolved_once_and_anew_each_time(proxy: GuardedProxy, web: Origin, names: Names) -> None:
    port = find_target(web).rpartition(":")[2]
    names.answers["rebound.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    assert get(proxy.open(LOOPBACK_POLICY), f"rebound.example:{port}").endswith(b"public")
    assert get(proxy.open(LOOPBACK_POLICY), f"rebound.example:{port}").startswith(b"HTTP/1.1 403 ")


def test_the_policy_of_the_last_call_counts(proxy: GuardedProxy, web: Origin) -> None:
    access = proxy.open(LOOPBACK_POLICY)
    assert proxy.open(AddressPolicy()) == access
    assert get(access, find_target(web)).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("password", ["", "wrong", "\u00e9"])
def test_who_does_not_know_the_secret_reaches_nothing(proxy: GuardedProxy, web: Origin, password: str) -> None:
    request = f"CONNECT {find_target(web)} HTTP/1.1"
    assert send(proxy.open(LOOPBACK_POLICY), request, password=password).startswith(b"HTTP/1.1 407 ")
    assert web.requests == []
    host, port = proxy.open(LOOPBACK_POLICY).url.removeprefix("http://").split(":")
    for line in ("", "Proxy-Authorization: Bearer x\r\n", "Proxy-Authorization: Basic !!!\r\n"):
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(f"{request}\r\n{line}\r\n".encode())
            assert connection.recv(65536).startswith(b"HTTP/1.1 407 ")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET http://127.0.0.2/ HTTP/1.1", "CONNECT 127.0.0.2 HTTP/1.1", "CONNECT a b:80 HTTP/1.1",
        "CONNECT :80 HTTP/1.1", "CONNECT a:99999 HTTP/1.1",
    ],
)  # fmt: skip
def test_it_connects_and_does_nothing_else(proxy: GuardedProxy, request_line: str) -> None:
    assert send(proxy.open(LOOPBACK_POLICY), request_line).startswith(b"HTTP/1.1 405 ")


def test_what_does_not_answer_is_told(proxy: GuardedProxy) -> None:
    access = proxy.open(LOOPBACK_POLICY)
    assert get(access, "127.0.0.2:1").startswith(b"HTTP/1.1 502 ")
    assert get(access, "nowhere.invalid:80").startswith(b"HTTP/1.1 502 ")


def test_it_ends_with_the_process(proxy: GuardedProxy) -> None:
    host, port = proxy.open(LOOPBACK_POLICY).url.removeprefix("http://").split(":")
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 10)
