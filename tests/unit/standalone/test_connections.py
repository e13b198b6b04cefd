"""The bounds on connections, in a real uvicorn in front of a small application, with bounds of tenths of a second."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.runtime import Runtime
from mangrove.core.shared_memory import Counts, Region, SharedMemory
from mangrove.standalone import connections as module
from mangrove.standalone.connections import (
    MAX_WAITING_REQUESTS,
)
from tests.support.sharing import share_memory
from tests.support.waiting import wait_until
from tests.unit.standalone.http_server import (
    HEAD,
    SHORT_LIMITS,
    SHORT_WINDOW,
    UPLOAD,
    WAIT_SECONDS,
    Clock,
    Server,
    Small,
    is_served,
    read_all,
    send_slowly,
    serve,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.parametrize(("bound", "key"), [("per_source", "127.0.0.1"), ("connections", None)])
def test_connections_of_the_other_processes_count(bound: str, key: str | None) -> None:
    other, own = share_memory(2)
    runtime.put(SharedMemory, own)
    with runtime.use(Runtime()) as there:
        there.put(SharedMemory, other)
        counts = Counts(Region.CONNECTIONS)
    with serve(**{bound: 3}) as server:
        counts.add(key, 2)
        assert is_served(server)
        counts.add(key, 1)
        with server.connect() as connection:
            connection.sendall(HEAD)
            assert read_all(connection).startswith(b"HTTP/1.1 503")
        other.clear(Region.CONNECTIONS)  # that process died
        assert is_served(server)


def test_the_only_connection_of_a_source_gives_way_to_its_next() -> None:
    with serve(connections=1) as server:
        for _ in range(5):
            with server.connect() as idle:
                assert is_served(server)
                assert read_all(idle) == b""


class Gate:
    """An application that answers the path of a request once `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            more = (await receive()).get("more_body", False)
        listening = asyncio.create_task(receive())  # which resumes reading
        await asyncio.to_thread(self.release.wait)
        listening.cancel()
        body = scope["path"].encode() + b";"
        head = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


def count_cycles() -> int:
    """The requests that uvicorn has parsed and not answered."""
    cycles = [each for each in gc.get_objects() if isinstance(each, RequestResponseCycle)]
    return sum(not cycle.response_complete for cycle in cycles)


def send_pipelined(server: Server, gate: Gate, stream: bytes) -> tuple[int, bytes]:
    """Send all before the first answer; the most requests that were parsed at a time, and all answers."""
    with server.connect() as connection:
        sender = threading.Thread(target=connection.sendall, args=(stream,))
        sender.start()
        most, end = 0, time.monotonic() + 0.5
        while time.monotonic() < end:
            most = max(most, count_cycles())
            time.sleep(0.05)
        gate.release.set()
        answers = read_all(connection)
        sender.join()
    return most, answers


@pytest.mark.parametrize("kind", ["bare", "chunked", "body"])
def test_pipelining_keeps_sixteen_requests_and_answers_all(kind: str) -> None:
    """A1: all requests are answered in their order, and few of them are parsed before their turn."""
    request = {
        "bare": b"GET /%d HTTP/1.1\r\n\r\n",
        "chunked": b"PUT /%d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "body": b"PUT /%d HTTP/1.1\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
    }[kind]
    gate, count = Gate(), 500
    stream = b"".join(request % number for number in range(count)) + HEAD.replace(b"Host", b"Connection: close\r\nHost")
    with serve(gate) as server:
        most, answers = send_pipelined(server, gate, stream)
    assert most <= 1 + MAX_WAITING_REQUESTS
    paths = [part.rpartition(b"\r\n\r\n")[2] for part in answers.split(b";")]
    assert paths == [*(b"/%d" % number for number in range(count)), b"/", b""]


class Patient:
    """An application that does not answer before its client leaves, as a stream of events."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.left = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        self.began.set()
        assert (await receive())["type"] == "http.disconnect"
        self.left.set()


def test_first_of_two_pipelined_requests_learns_that_its_client_left() -> None:
    """uvicorn tells only the last one."""
    app = Patient()
    with serve(app) as server:
        with server.connect() as connection:
            connection.sendall(2 * HEAD)
            assert app.began.wait(WAIT_SECONDS)
        assert app.left.wait(WAIT_SECONDS)


def test_pipelined_requests_behind_a_body_in_chunks_wait() -> None:
    gate, count = Gate(), 2000
    first = b"PUT /0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    stream = first + b"GET / HTTP/1.1\r\n\r\n" * count + HEAD.replace(b"Host", b"Connection: close\r\nHost")
    with serve(gate) as server:
        most, answers = send_pipelined(server, gate, stream)
    assert most <= 1 + MAX_WAITING_REQUESTS
    assert answers.count(b"HTTP/1.1 200") == count + 2


def test_uvicorn_has_the_names_that_connections_rely_on() -> None:
    """The names of the module's docstring exist in the pinned version."""
    config = uvicorn.Config(Small(), ws="none", log_config=None)
    loop = asyncio.new_event_loop()
    protocol = HttpToolsProtocol(config, uvicorn.server.ServerState(), {}, loop)
    loop.close()
    cycle: Any = RequestResponseCycle(*[None] * 8, False, True, print)  # type: ignore[arg-type]
    names = {
        protocol: "parser transport flow client scope url headers cycle pipeline on_message_begin on_headers_complete "
        "on_body on_message_complete on_response_complete send_400_response",
        cycle: "body disconnected message_event response_started response_complete waiting_for_100_continue "
        "expected_content_length",
        FlowControl(None): "read_paused write_paused pause_reading resume_reading pause_writing "  # type: ignore[arg-type]
        "resume_writing drain",
    }
    protocol.on_message_begin()
    for owner, text in names.items():
        for name in text.split():
            assert hasattr(owner, name), name
            assert f"`{name}`" in (module.__doc__ or ""), name


def test_a_head_that_trickles_is_cut_with_408(clock: Clock) -> None:
    with serve(**SHORT_LIMITS) as server, server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connections: Any = server.server.server_state.connections
        wait_until(lambda: any(each._is_in_head for each in list(connections)))
        while connections:
            with suppress(OSError):  # it has just been cut
                connection.sendall(b"x: y\r\n")
            clock.advance(server, 0.05)
        assert clock.now < Clock().now + 1
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
        assert b'{"code":408,' in answer


@pytest.mark.parametrize("sent", [b"", b"\r\n", HEAD])
def test_a_connection_that_asks_nothing_is_closed(sent: bytes, clock: Clock) -> None:
    with serve(**SHORT_LIMITS) as server, server.connect() as connection:
        connection.sendall(sent)
        answer = connection.recv(1 << 16) if sent == HEAD else b""
        wait_until(lambda: bool(server.server.server_state.connections))
        while server.server.server_state.connections:
            clock.advance(server, 0.4)
        answer += read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200") if sent == HEAD else not answer


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200_000,
        b"GET / HTTP/1.1\r\nx: " + b"y" * 1_000_000,
    ],
)
def test_a_head_over_its_size_is_refused_with_431(head: bytes) -> None:
    app = Small()
    with serve(app) as server, server.connect() as connection:
        try:
            connection.sendall(head)
        except OSError:
            pass  # cut before all of it was sent
        assert read_all(connection).startswith(b"HTTP/1.1 431") or len(head) > 100_000
        assert is_served(server)
    assert app.outcomes.count("answered") == 1


def test_a_head_of_nearly_its_size_is_answered() -> None:
    with serve() as server, server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\nx: " + b"y" * 65_000 + b"\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_broken_bytes_behind_a_request_end_it_with_one_answer() -> None:
    app = Small(1 << 20)
    with serve(app) as server, server.connect() as connection:
        connection.sendall(HEAD + b"\0broken\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b'"message":"the request is not well-formed","data":null}')


def test_trailers_without_end_are_cut() -> None:
    app = Small()
    with serve(app) as server, server.connect() as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
        assert send_slowly(connection, b"x: " + b"y" * 60_000 + b"\r\n") < WAIT_SECONDS
        read_all(connection)
    assert app.outcomes[0] == "http.disconnect"


def test_a_body_that_trickles_is_cut_with_408_and_the_application_knows() -> None:
    app = Small()
    with serve(app, **SHORT_WINDOW) as server, server.connect() as connection:
        connection.sendall(UPLOAD)
        assert send_slowly(connection, b"x") < WAIT_SECONDS
        assert read_all(connection).startswith(b"HTTP/1.1 408")
    assert app.outcomes[0] == "http.disconnect"


def test_a_slow_body_above_the_bound_is_taken_whole(clock: Clock) -> None:
    app = Small()

    def has_received(size: int) -> bool:
        return app.received >= size

    with serve(app, slowest=1000, **SHORT_LIMITS) as server, server.connect() as connection:
        connection.sendall(UPLOAD)
        for number in range(1, 21):
            connection.sendall(b"x" * 5000)
            wait_until(partial(has_received, 5000 * number))
            clock.advance(server, 0.05)  # the pace of the client: it takes three windows
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert app.outcomes[0] == "http.request"


def test_a_client_that_waits_for_100_continue_is_not_slow(clock: Clock) -> None:
    began, release = threading.Event(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        await asyncio.to_thread(release.wait)
        await Small()(scope, receive, send)

    with serve(app, **SHORT_LIMITS) as server, server.connect() as connection:
        connection.sendall(UPLOAD.replace(b"Host", b"Expect: 100-continue\r\nHost"))
        assert began.wait(WAIT_SECONDS)
        for _ in range(10):
            clock.advance(server, 0.1)  # three windows during which the service computes
        release.set()
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(b"x" * 100_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [1 << 16, 64 << 20])
def test_a_client_that_does_not_read_its_answer_is_cut(size: int) -> None:
    app = Small(size)
    with serve(app, **SHORT_WINDOW) as server, server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(HEAD)
        end = time.monotonic() + WAIT_SECONDS
        while server.server.server_state.connections or not app.outcomes:
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.mark.parametrize("size", [1 << 20, 8 << 20])
def test_a_slow_reader_above_the_bound_gets_all(clock: Clock, size: int) -> None:
    """Of the large answer more is written as often as the reader has taken something."""
    with serve(Small(size), slowest=10_000, **SHORT_LIMITS) as server, server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.sendall(HEAD.replace(b"Host", b"Connection: close\r\nHost"))
        received = 0
        while block := connection.recv(1 << 16):
            received += len(block)
            clock.advance(server, 0.03)  # the pace of the reader: it takes several windows
    assert received > size


def test_an_idle_connection_gives_way_to_a_new_one_of_its_address() -> None:
    with serve(per_source=3) as server:
        idle = [server.connect() for _ in range(10)]
        assert is_served(server)
        assert read_all(idle[0]) == b""
        for connection in idle:
            connection.close()


def test_connections_over_limit_of_address_are_refused_with_503() -> None:
    with serve(per_source=3) as server:
        busy = [server.connect() for _ in range(3)]
        for connection in busy:
            connection.sendall(UPLOAD)
        end = time.monotonic() + WAIT_SECONDS
        while len(server.server.server_state.tasks) < 3:
            assert time.monotonic() < end
            time.sleep(0.01)
        with server.connect() as other:
            assert read_all(other).startswith(b"HTTP/1.1 503")
        assert is_served(server, "127.0.0.2")
        for connection in busy:
            connection.sendall(b"x" * 100_000)
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            connection.close()


def test_a_trusted_proxy_may_have_as_many_connections_as_there_are() -> None:
    runtime.put(Config, Config(trusted_proxies=("127.0.0.2/31",)))
    with serve(per_source=3) as server:
        idle = [server.connect("127.0.0.3") for _ in range(10)]
        for connection in idle:
            connection.sendall(HEAD)
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        for connection in idle:
            connection.close()


def test_clients_get_half_of_the_descriptors_and_idle_ones_give_way() -> None:
    with serve(descriptors=12) as server:
        idle = [server.connect(f"127.0.0.{number}") for number in range(10, 30)]
        assert is_served(server)
        assert len(server.server.server_state.connections) <= 6
        for connection in idle:
            connection.close()
