"""HTTP/1.1 over a plain socket. The client does little work, so the measured time is that of the server."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

BLOCK_BYTES = 1 << 20
IDLE_SECONDS = 2.0  # after which a server may close a connection


class Connection:
    """A keep-alive connection that sends `token` with every request; "" for none."""

    def __init__(self, address: str, token: str = "") -> None:
        self.token = token
        self._address = urlsplit(address)
        self._buffer = memoryview(bytearray(BLOCK_BYTES))
        self._answered = 0.0  # the time of the last answer, by time.monotonic
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection((self._address.hostname, self._address.port), 300)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

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
        block = memoryview(os.urandom(min(size, BLOCK_BYTES)))
        self._send("PUT", "/api/fs/put", size, f"file-path: {quote(path)}\r\n")
        for _ in range(size // BLOCK_BYTES):
            self._socket.sendall(block)
        self._socket.sendall(block[: size % BLOCK_BYTES])
        self._read_envelope()

    def _send_body(self, path: str, body: Any) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self._send("POST" if content else "GET", path, len(content), "content-type: application/json\r\n", content)

    def _send(self, method: str, path: str, size: int, headers: str, content: bytes = b"") -> None:
        """Send a request. Open the connection again if it was idle or its last request has failed."""
        if time.monotonic() - self._answered > IDLE_SECONDS:
            self.close()
            self._open()
        self._answered = 0.0
        if self.token:
            headers += f"authorization: {self.token}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._address.netloc}\r\n{headers}content-length: {size}\r\n\r\n"
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
        else:
            while size := int(self._file.readline(), 16):
                yield from self._read_exactly(size)
                self._file.readline()
            self._file.readline()
        self._answered = time.monotonic()

    def _read_exactly(self, size: int) -> Iterator[memoryview]:
        while size:
            count = self._file.readinto(self._buffer[:size])
            assert count, "the answer was cut"
            yield self._buffer[:count]
            size -= count
