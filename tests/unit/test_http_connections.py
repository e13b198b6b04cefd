"""Connections to HTTP servers: what a server may answer, and which connections are used again."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

import pytest

from mangrove.core.aws_calls import ServerAddress
from mangrove.core.http_connections import MAX_IDLE_CONNECTIONS, MAX_JOINED_BYTES, HttpConnections, make_connections

TIMEOUT_SECONDS = 30.0
MAX_BYTES = 1 << 20
Pieces = Sequence[bytes]


class Server:
    """A server that answers the requests on each connection with pieces of bytes, and closes it after the last."""

    def __init__(self, connections: Sequence[Sequence[Pieces]]) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, args=(connections,))
        self._thread.start()

    def _accept(self, connections: Sequence[Sequence[Pieces]]) -> None:
        for answers in connections:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as stream, suppress(OSError):  # the client may end it before
                for pieces in answers:
                    self._receive(stream)
                    for piece in pieces:
                        connection.sendall(piece)

    def _receive(self, stream: socket.SocketIO) -> None:
        head, size = b"", 0
        while not head.endswith(b"\r\n\r\n") and (line := stream.readline()):
            head += line
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        self.requests.append(head + stream.read(size))

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@contextmanager
def serve(*connections: Sequence[Pieces]) -> Iterator[HttpConnections]:
    """Serve answers on connections, one after the other."""
    server = Server(connections)
    connect = partial(socket.create_connection, ("127.0.0.1", server.port), TIMEOUT_SECONDS)
    with closing(server), closing(HttpConnections(connect, TIMEOUT_SECONDS)) as client:
        yield client


def call(client: HttpConnections, method: str = "POST") -> tuple[int, bytes]:
    """Return status and body of an answer."""
    with closing(client.send(method, "/", {"host": "server"}, b"{}")) as answer:
        return answer.status, answer.read_all(MAX_BYTES)


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
EXPECTED = (200, b"ok")


def test_answers_of_one_connection_are_read_in_turn() -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length:0\r\n\r\n"
    with serve([[OK], [OK[:10], OK[10:40], OK[40:]], [refused]]) as client:
        assert [call(client), call(client)] == [EXPECTED] * 2
        assert call(client) == (400, b"")


@pytest.mark.parametrize(
    "pieces",
    [
        [CHUNKED + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n"],
        [CHUNKED, b"1;extension=1\r\n", b"o", b"\r\n1\r\nk\r", b"\n0\r\ntrailer: x\r\n", b"\r\n"],
        [b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n" + OK],
        [OK.replace(b"\r\nc", b"\r\n" + b"x: " + b"y" * 60_000 + b"\r\nc")],
    ],
    ids=["chunked", "chunks in pieces", "informational", "long header"],
)
def test_connection_is_used_again_after_the_end_of_an_answer(pieces: Pieces) -> None:
    with serve([pieces, [OK]]) as client:
        assert [call(client), call(client)] == [EXPECTED] * 2


@pytest.mark.parametrize(
    "pieces",
    [
        [OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")],
        [OK.replace(b"1.1", b"1.0")],
        [OK + b"more"],
        [OK + OK],
        [OK + b"H"],
        [OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + OK],
        [b"HTTP/1.1 200 OK\r\n\r\n", b"o", b"k"],
        [CHUNKED + b"2\r\nok\r\n0\r\n\r\nmore"],
    ],
    ids=["close", "HTTP/1.0", "excess", "two answers", "begun", "close and excess", "no length", "chunked and excess"],
)
def test_connection_that_ends_or_has_more_is_not_used_again(pieces: Pieces) -> None:
    with serve([pieces], [[OK]]) as client:
        assert [call(client), call(client)] == [EXPECTED] * 2


def test_answer_to_head_has_no_body() -> None:
    with serve([[OK[:-2]], [b"HTTP/1.1 404 Not Found\r\n\r\n"], [OK]]) as client:
        with closing(client.send("HEAD", "/", {})) as answer:
            assert answer.headers == {"content-length": "2"}
            assert answer.read(10) == b""
        assert call(client, "HEAD") == (404, b"")
        assert call(client) == EXPECTED


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_status_without_a_body_ends_with_its_head(status: bytes) -> None:
    with serve([[b"HTTP/1.1 " + status + b"\r\n\r\n"], [OK]]) as client:
        assert call(client)[1] == b""
        assert call(client) == EXPECTED


def test_answer_that_is_not_read_to_its_end_closes_the_connection() -> None:
    with serve([[OK[:-1]]], [[OK]]) as client:
        with closing(client.send("GET", "/", {})) as answer:
            assert answer.read(1) == b"o"
        assert call(client) == EXPECTED


def test_answer_that_is_dropped_closes_the_connection(recwarn: pytest.WarningsRecorder) -> None:
    with serve([[OK[:-1]]], [[OK]]) as client:
        assert client.send("GET", "/", {}).status == 200
        assert call(client) == EXPECTED
    assert not recwarn.list


def test_answer_that_is_closed_twice_leaves_the_connection_alone() -> None:
    with serve([[OK], [OK], [OK]]) as client:
        first = client.send("GET", "/", {})
        assert first.read_all(MAX_BYTES) == b"ok"
        first.close()
        with closing(client.send("GET", "/", {})) as second:
            first.close()
            assert second.read_all(MAX_BYTES) == b"ok"
        assert call(client) == EXPECTED


def test_body_is_read_in_blocks_of_the_requested_size() -> None:
    body = bytes(range(256)) * 4096
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    with serve([[head + body[:10], body[10:]], [OK]]) as client:
        with closing(client.send("GET", "/", {})) as answer:
            assert answer.length == len(body)
            blocks = []
            while block := answer.read(100_000):
                blocks.append(block)
        assert [len(block) for block in blocks] == [100_000] * 10 + [len(body) - 1_000_000]
        assert b"".join(blocks) == body
        assert call(client) == EXPECTED


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        OK[:20],
        OK[:-1],
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(MAX_BYTES + 1),
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        CHUNKED + b"x\r\n",
        CHUNKED + b"2\r\nok\r\n",
        CHUNKED + b"1;" + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 101 + b"content-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000 + b"\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000 + OK,
    ],
    ids=[
        "nothing", "half a head", "half a body", "no HTTP", "too long", "too long without a length", "negative",
        "two lengths", "length and chunks", "unknown coding", "upgrade", "no chunk", "no last chunk", "long extension",
        "many headers", "long header", "many informational",
    ],
)  # fmt: skip
def test_invalid_answer_is_a_failure_of_the_connection(answer: bytes) -> None:
    with serve([[answer]]) as client, pytest.raises(ConnectionError):
        call(client)


def test_server_that_does_not_answer_is_a_timeout() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        client = HttpConnections(partial(socket.create_connection, listener.getsockname(), TIMEOUT_SECONDS), 0.05)
        with pytest.raises(TimeoutError):
            call(client)
        client.close()


def test_headers_of_one_name_are_joined() -> None:
    with serve([[OK.replace(b"\r\n\r\n", b"\r\nETag: \xfc \r\netag:b\r\n\r\n")]]) as client:
        with closing(client.send("GET", "/", {})) as answer:
            assert answer.headers["etag"] == "ü, b"


@pytest.mark.parametrize("size", [0, MAX_JOINED_BYTES, MAX_JOINED_BYTES + 1])
def test_request_has_its_headers_and_its_body(size: int) -> None:
    server = Server([[[OK]]])
    connect = partial(socket.create_connection, ("127.0.0.1", server.port))
    with closing(server), closing(HttpConnections(connect, TIMEOUT_SECONDS)) as client:
        client.send("PUT", "/a?b", {"host": "server", "x": "ü"}, bytearray(size)).close()
    head = f"PUT /a?b HTTP/1.1\r\nhost: server\r\nx: ü\r\ncontent-length: {size}\r\n\r\n"
    assert server.requests == [head.encode("latin-1") + bytes(size)]


@pytest.mark.parametrize("header", [{"a\n": "b"}, {"a": "b\r\nc: d"}, {"a": "b\r"}, {"a": "\U0001f600"}])
def test_header_that_http_cannot_carry_is_refused(header: dict[str, str]) -> None:
    connections: list[object] = []
    with pytest.raises(ValueError):
        HttpConnections(connections.pop, 1).send("GET", "/", header)


def test_idle_connections_are_bounded_and_closed_with_their_owner() -> None:
    pairs = [socket.socketpair() for _ in range(MAX_IDLE_CONNECTIONS + 1)]
    for _, server in pairs:
        server.sendall(OK)
    clients = [client for client, _ in pairs]
    connections = HttpConnections(iter(clients).__next__, TIMEOUT_SECONDS)
    for answer in [connections.send("GET", "/", {}) for _ in pairs]:
        answer.read_all(MAX_BYTES)
        answer.close()
    assert sum(client.fileno() < 0 for client in clients) == 1
    del answer, connections
    assert all(client.fileno() < 0 for client in clients)
    for _, server in pairs:
        server.close()


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A proxy in the environment, which refuses a tunnel and answers other requests."""
    server = Server([[[b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"]], [[OK]]])
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://us%20er:pass@127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "")
    yield server
    server.close()


def test_proxy_gets_its_credentials_and_may_refuse_a_tunnel(proxied: Server) -> None:
    address = ServerAddress("https", "server.test", None, "server.test")
    with pytest.raises(ConnectionError, match="407"):
        call(make_connections(address, ssl.create_default_context(), TIMEOUT_SECONDS, TIMEOUT_SECONDS))
    assert call(make_connections(address._replace(scheme="http"), None, TIMEOUT_SECONDS, TIMEOUT_SECONDS)) == EXPECTED
    tunnel, request = proxied.requests
    credentials = b"proxy-authorization: Basic " + base64.b64encode(b"us er:pass")
    assert tunnel.startswith(b"CONNECT server.test:443 HTTP/1.1\r\nhost: server.test:443\r\n" + credentials)
    assert request.startswith(b"POST http://server.test/ HTTP/1.1\r\n")
    assert credentials in request
