"""Connections to the records engine: what an engine may answer, and which connections are used again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from mangrove.records.store import engine_connections
from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.records.store.engine_connections import EngineAnswer, EngineConnections

TIMEOUT_SECONDS = 30.0


@contextmanager
def serve(*connections: Sequence[Sequence[bytes]]) -> Iterator[EngineConnections]:
    """Serve the pieces of each answer on each connection, which is closed after its last answer."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        for answers in connections:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                for pieces in answers:
                    while stream.readline() not in (b"\r\n", b""):
                        pass
                    stream.read(2)
                    for piece in pieces:
                        connection.sendall(piece)

    thread = threading.Thread(target=accept)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield EngineConnections(EngineEndpoint(url), TIMEOUT_SECONDS, TIMEOUT_SECONDS)
    thread.join()
    listener.close()


def post(engine: EngineConnections) -> EngineAnswer:
    return engine.post({"host": "engine"}, b"{}")


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_answers_of_one_connection_are_read_in_turn() -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length:0\r\n\r\n"
    with serve([[OK], [OK[:10], OK[10:40], OK[40:]], [refused]]) as engine:
        assert [post(engine), post(engine)] == [EngineAnswer(200, b"ok")] * 2
        assert post(engine) == EngineAnswer(400, b"")


def test_connection_that_the_engine_closes_is_not_used_again() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with serve([[closing]], [[OK]]) as engine:
        assert [post(engine), post(engine)] == [EngineAnswer(200, b"ok")] * 2


def test_connection_with_more_than_an_answer_is_not_used_again() -> None:
    with serve([[OK + b"more"]], [[OK]]) as engine:
        assert [post(engine), post(engine)] == [EngineAnswer(200, b"ok")] * 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        OK[:-1],
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    ],
    ids=["nothing", "truncated", "no length", "no HTTP", "too long", "negative"],
)
def test_incomplete_answer_is_a_failure_of_the_connection(answer: bytes) -> None:
    with serve([[answer]]) as engine, pytest.raises(ConnectionError):
        post(engine)


def test_endless_head_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_connections, "MAX_HEAD_BYTES", 100)
    with serve([[b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40]]) as engine, pytest.raises(ConnectionError):
        post(engine)
