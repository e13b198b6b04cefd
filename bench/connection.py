"""HTTP/1.1 over a plain socket. The client does little work, so the measured time is that of the server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

BLOCK = 1 << 20


class Connection:
    """A keep-alive connection that sends `token` with every request; "" for none."""

    def __init__(self, address: str, token: str = "") -> None:
        parts = urlsplit(address)
        self._socket = socket.create_connection((parts.hostname, parts.port), 300)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._head = f"host: {parts.netloc}\r\n" + (f"authorization: {token}\r\n" if token else "")
        self._buffer = memoryview(bytearray(BLOCK))

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the data of a POST, or of a GET without a body. Raise RuntimeError unless its code is 200."""
        self._send_body(path, body)
        return self._read_envelope()

    def drain(self, path: str, body: Any = None) -> Iterator[int]:
        """Read the answer of such a request without parsing it. Yield the number of bytes of each block."""
        self._send_body(path, body)
        yield from map(len, self._read_blocks())

    def get(self, path: str) -> int:
        """Fetch a URL path and return the number of bytes."""
        return sum(self.drain(path))

    def put(self, path: str, size: int) -> None:
        """Upload `size` bytes to the tree path."""
        block = memoryview(os.urandom(min(size, BLOCK)))
        self._send("PUT", "/api/fs/put", size, f"file-path: {quote(path)}\r\n")
        for _ in range(size // BLOCK):
            self._socket.sendall(block)
        self._socket.sendall(block[: size % BLOCK])
        self._read_envelope()

    def _send_body(self, path: str, body: Any) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self._send("POST" if content else "GET", path, len(content), "content-type: application/json\r\n", content)

    def _send(self, method: str, path: str, size: int, headers: str, content: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{headers}content-length: {size}\r\n\r\n"
        self._socket.sendall(head.encode() + content)

    def _read_envelope(self) -> Any:
        envelope = json.loads(b"".join(map(bytes, self._read_blocks())))
        if envelope["code"] != 200:
            raise RuntimeError(envelope)
        return envelope["data"]

    def _read_blocks(self) -> Iterator[memoryview]:
        """Yield the body of an answer. Its blocks use one buffer."""
        status = self._file.readline()
        headers = dict(line.decode().lower().strip().split(": ", 1) for line in iter(self._file.readline, b"\r\n"))
        if status.split()[1:2] != [b"200"]:
            raise RuntimeError(status)
        if headers.get("transfer-encoding") != "chunked":
            yield from self._read_exactly(int(headers["content-length"]))
            return
        while size := int(self._file.readline(), 16):
            yield from self._read_exactly(size)
            self._file.readline()
        self._file.readline()

    def _read_exactly(self, size: int) -> Iterator[memoryview]:
        while size:
            count = self._file.readinto(self._buffer[:size])
            assert count, "the answer was cut"
            yield self._buffer[:count]
            size -= count
