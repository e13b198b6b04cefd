"""Connections to the records engine of this computer, which take a third of the time of a general HTTP client.

The engine answers each request with a status line, headers and a body of Content-Length bytes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from mangrove.core.http_connections import is_dropped
from mangrove.records.store.endpoints import EngineEndpoint

MAX_HEAD_BYTES = 16 << 10
MAX_BODY_BYTES = 64 << 20  # DynamoDB answers with at most 16 MB
MAX_IDLE_CONNECTIONS = 64
RECEIVED_BYTES = 64 << 10  # at once
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})[ \r]")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,10}) *\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close *\r\n", re.IGNORECASE)


class EngineAnswer(NamedTuple):
    """The answer to a request."""

    status: int
    content: bytes


class EngineConnections:
    """Connections that are used again. All methods may be called in any thread."""

    def __init__(self, endpoint: EngineEndpoint, connect_seconds: float, read_seconds: float) -> None:
        self._endpoint = endpoint
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._idle: list[socket.socket] = []

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections. The next request opens another."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def post(self, headers: Mapping[str, str], body: bytes) -> EngineAnswer:
        """Send a request and return its answer. Raise OSError if that fails."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST / HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n"
        connection = self._take()
        try:
            connection.sendall(head.encode("latin-1") + body)
            answer, is_reusable = _receive(connection)
        except BaseException:
            connection.close()
            raise
        if is_reusable and len(self._idle) < MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> socket.socket:
        """Return a connection that the engine has not closed, or a new one."""
        while self._idle:
            with suppress(IndexError):
                connection = self._idle.pop()
                if not is_dropped(connection):
                    return connection
                connection.close()
        connection = self._endpoint.connect(self._connect_seconds)
        connection.settimeout(self._read_seconds)
        return connection


def _receive(connection: socket.socket) -> tuple[EngineAnswer, bool]:
    """Return an answer, and True if the connection can be used again."""
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        if len(received) > MAX_HEAD_BYTES:
            raise ConnectionError("the records engine answers with a head that is too long")
        received += _receive_some(connection)
    head = bytes(received[: end + 2])
    status, length = _STATUS.match(head), _LENGTH.search(head)
    if status is None or length is None or int(length[1]) > MAX_BODY_BYTES:
        raise ConnectionError("the records engine answers without a status or a length")
    start, stop = end + 4, end + 4 + int(length[1])
    while len(received) < stop:
        received += _receive_some(connection)
    is_reusable = len(received) == stop and not _CLOSE.search(head)
    return EngineAnswer(int(status[1]), bytes(received[start:stop])), is_reusable


def _receive_some(connection: socket.socket) -> bytes:
    content = connection.recv(RECEIVED_BYTES)
    if not content:
        raise ConnectionError("the records engine closed the connection")
    return content
