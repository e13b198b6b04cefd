"""HTTP/1.1 over a plain socket. The client does little work, so the measured time is that of the server."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any
from urllib.parse import quote, urlsplit

BLOCK = 1 << 20


class Connection:
    """A keep-alive connection that sends `token` with every request."""

    def __init__(self, address: str, token: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname and parts.port
        self._socket = socket.create_connection((parts.hostname, parts.port), 120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"host: {parts.netloc}\r\nauthorization: {token}\r\n"
        self._buffer = memoryview(bytearray(BLOCK))

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def post(self, path: str, /, **body: Any) -> Any:
        """Send a request and return the data of its envelope, whose code has to be 200."""
        content = json.dumps(body).encode()
        self._begin("POST", path, len(content), "content-type: application/json\r\n", content)
        return self._envelope()

    def post_and_drain(self, path: str, /, **body: Any) -> int:
        """Send a request and read its answer without parsing it. Return the number of bytes, with the framing."""
        content = json.dumps(body).encode()
        more = "content-type: application/json\r\nconnection: close\r\n"
        self._begin("POST", path, len(content), more, content)
        count, last = 0, b""
        while read := self._socket.recv_into(self._buffer):
            count, last = count + read, bytes(self._buffer[max(read - 8, 0) : read])
        assert last.endswith((b"}", b"0\r\n\r\n")), "the answer was cut"
        return count

    def put(self, path: str, size: int) -> None:
        """Upload `size` bytes to the tree path."""
        block = memoryview(os.urandom(min(size, BLOCK)))
        self._begin("PUT", "/api/fs/put", size, f"file-path: {quote(path)}\r\n")
        for _ in range(size // BLOCK):
            self._socket.sendall(block)
        self._socket.sendall(block[: size % BLOCK])
        self._envelope()

    def get(self, path: str) -> int:
        """Fetch a URL path and return the number of bytes."""
        self._begin("GET", path, 0)
        body, length = self._answer()
        self._drain(length - len(body))
        return length

    def get_timed(self, path: str) -> tuple[float, float]:
        """Fetch a URL path. Return the seconds until the first byte of the body, and until the last."""
        began = time.perf_counter()
        self._begin("GET", path, 0)
        body, length = self._answer()
        body += b"" if body else self._socket.recv(BLOCK)
        first = time.perf_counter() - began
        self._drain(length - len(body))
        return first, time.perf_counter() - began

    def _drain(self, left: int) -> None:
        while left:
            read = self._socket.recv_into(self._buffer)
            assert read, "the answer was cut"
            left -= read

    def _begin(self, method: str, path: str, size: int, more: str = "", content: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{more}content-length: {size}\r\n\r\n"
        self._socket.sendall(head.encode() + content)

    def _answer(self) -> tuple[bytearray, int]:
        """Return the part of the body that came with the head, and the length of the body."""
        received = bytearray()
        while b"\r\n\r\n" not in received:
            block = self._socket.recv(65536)
            assert block, "no answer"
            received += block
        head, _, body = received.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        assert status.split()[1] == "200", status
        headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
        return body, int(headers["content-length"])

    def _envelope(self) -> Any:
        body, length = self._answer()
        while len(body) < length:
            body += self._socket.recv(BLOCK)
        envelope = json.loads(body)
        assert envelope["code"] == 200, envelope
        return envelope["data"]
