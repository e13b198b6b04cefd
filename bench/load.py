"""Requests per second: with wrk where it is installed, else with a client of our own."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CONNECTIONS = 16
WARM_SECONDS = 1


def measure_rate(
    address: str, path: str, token: str, body: dict[str, Any] | None, seconds: int, scratch: Path
) -> float:
    """Requests per second of one request repeated on CONNECTIONS connections; a GET when there is no body."""
    content = None if body is None else json.dumps(body)
    if shutil.which("wrk"):
        script = scratch / "wrk.lua"
        script.write_text(_lua(token, content))
        _wrk(script, address + path, WARM_SECONDS)
        return _wrk(script, address + path, seconds)
    request = _request(address, path, token, content)
    asyncio.run(_send_requests(address, request, WARM_SECONDS))
    return asyncio.run(_send_requests(address, request, seconds))


def _lua(token: str, content: str | None) -> str:
    lines = [f'wrk.headers["authorization"] = {json.dumps(token)}']
    if content is not None:
        lines += [
            'wrk.method = "POST"',
            'wrk.headers["content-type"] = "application/json"',
            f"wrk.body = {json.dumps(content)}",
        ]
    return "\n".join(lines) + "\n"


def _wrk(script: Path, url: str, seconds: int) -> float:
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "-s", str(script), url]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if not found or "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(output)
    return float(found[1])


def _request(address: str, path: str, token: str, content: str | None) -> bytes:
    method, body = ("GET", b"") if content is None else ("POST", content.encode())
    head = f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(address).netloc}\r\nauthorization: {token}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


class _Repeating(asyncio.Protocol):
    """Sends its request again as soon as an answer is there."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.answers = 0
        self._received = b""
        self._left = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self._left:
            self._left -= len(data)
        else:
            self._received += data
            head, end, body = self._received.partition(b"\r\n\r\n")
            if not end:
                return
            found = re.search(rb"(?i)content-length: *(\d+)", head)
            assert head.startswith(b"HTTP/1.1 200 ") and found, head
            self._left = int(found[1]) - len(body)
            self._received = b""
        if not self._left:
            self.answers += 1
            self._transport.write(self.request)


async def _send_requests(address: str, request: bytes, seconds: int) -> float:
    parts = urlsplit(address)
    assert parts.hostname and parts.port
    host, port = parts.hostname, parts.port
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: _Repeating(request), host, port) for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    before = sum(protocol.answers for _, protocol in made)
    await asyncio.sleep(seconds)
    answers = sum(protocol.answers for _, protocol in made) - before
    taken = time.perf_counter() - began
    for transport, _ in made:
        transport.abort()
    if not answers:
        raise RuntimeError("no request was answered")
    return answers / taken
