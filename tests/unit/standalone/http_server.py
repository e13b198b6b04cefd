"""A server of the service's own connections, and clients of it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from mangrove.standalone.connections import (
    ClientConnections,
    ConnectionLimits,
)

WAIT_SECONDS = 120.0  # that a fact may take to come true
SHORT_WINDOW = {"window": 0.3}
SHORT_LIMITS = {"head_seconds": 0.3, "window": 0.3}  # for a test whose clock stands still: a loaded computer is slower
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
UPLOAD = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


class Small:
    """An application that reads the body, notes whether it was whole, and answers `size` bytes."""

    def __init__(self, size: int = 2) -> None:
        self.size = size
        self.outcomes: list[str] = []
        self.received = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message: Any = {"type": "http.request", "more_body": True}
        while message["type"] == "http.request" and message["more_body"]:
            message = await receive()
            self.received += len(message.get("body", b""))
        self.outcomes.append(message["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(max(self.size >> 16, 1)):
            await send({"type": "http.response.body", "body": b"x" * min(self.size, 1 << 16), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.outcomes.append("answered")


class Server:
    """A server in a thread; its bounds are checked every hundredth of a second."""

    def __init__(self, app: Any, limits: ConnectionLimits, descriptors: int) -> None:
        self.connections = ClientConnections(limits, descriptors)
        self.checks = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=self.connections.make_protocol(), ws="none", lifespan="off", log_config=None)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=asyncio.run, args=(self._serve(),))

    async def _serve(self) -> None:
        checks = asyncio.create_task(self._check())
        await self.server.serve([self.listener])
        checks.cancel()

    async def _check(self) -> None:
        while True:
            await self.connections.check()
            self.checks += 1
            await asyncio.sleep(0.01)

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        """A connection from an address of this machine."""
        return socket.create_connection(self.listener.getsockname(), WAIT_SECONDS, (address, 0))


class Clock:
    """The clock of the bounds. Only the time passes that a test lets pass, so no delay of the computer counts."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def advance(self, server: Server, seconds: float) -> None:
        """Let so many seconds pass, and have the bounds checked."""
        self.now += seconds
        count, end = server.checks + 2, time.monotonic() + WAIT_SECONDS
        while server.checks < count:
            assert time.monotonic() < end
            time.sleep(0.005)


@contextmanager
def serve(app: Any = None, descriptors: int = 10_000, **limits: Any) -> Iterator[Server]:
    server = Server(app or Small(), ConnectionLimits(**limits), descriptors)
    server.thread.start()
    try:
        yield server
    finally:
        server.server.should_exit = server.server.force_exit = True
        server.thread.join()
        server.listener.close()


def read_all(connection: socket.socket) -> bytes:
    """Return the bytes until the other side closes."""
    received = bytearray()
    try:
        while block := connection.recv(1 << 16):
            received += block
    except ConnectionResetError:
        pass  # closed with something unread
    return bytes(received)


def send_slowly(connection: socket.socket, data: bytes) -> float:
    """Send `data` again and again, until the other side closes; how long that took."""
    began = time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() < began + WAIT_SECONDS:
        try:
            connection.sendall(data)
            if not connection.recv(1, socket.MSG_PEEK):
                break
            break  # an answer
        except TimeoutError:
            continue
        except OSError:
            break
    connection.settimeout(WAIT_SECONDS)
    return time.monotonic() - began


def is_served(server: Server, address: str = "127.0.0.1") -> bool:
    with server.connect(address) as connection:
        connection.sendall(HEAD.replace(b"Host", b"Connection: close\r\nHost"))
        return read_all(connection).startswith(b"HTTP/1.1 200")
