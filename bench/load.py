"""Requests per second: with wrk where it is installed, else with a client of our own."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CONNECTIONS = 8
WARM_SECONDS = 1
_CHECK = """
function response(status, headers, body)
  if not body:find('"code":200', 1, true) then io.stderr:write(body, "\\n") wrk.thread:stop() end
end
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second, and how many cores the client was busy with."""

    per_second: float
    client_cores: float


def describe_client() -> str:
    """Who sends the requests."""
    name = f"wrk, {CONNECTIONS} connections" if shutil.which("wrk") else "our own client in Python"
    return name if shutil.which("wrk") else f"{name}, {CONNECTIONS} connections, since wrk is not installed"


def measure_rate(
    address: str,
    path: str,
    token: str,
    body: dict[str, Any] | None,
    seconds: int,
    scratch: Path,
    is_checked: bool = False,
) -> Rate:
    """One request repeated on CONNECTIONS connections; a GET when there is no body.

    RuntimeError for an answer that does not say 200, which is also looked for in the envelope when `is_checked`.
    """
    content = None if body is None else json.dumps(body)
    if shutil.which("wrk"):
        script = scratch / "wrk.lua"
        script.write_text(_lua(token, content) + (_CHECK if is_checked else ""))
        _wrk(script, address + path, WARM_SECONDS)
        return _wrk(script, address + path, seconds)
    request = _request(address, path, token, content)
    asyncio.run(_send_requests(address, request, WARM_SECONDS, is_checked))
    return asyncio.run(_send_requests(address, request, seconds, is_checked))


def _lua(token: str, content: str | None) -> str:
    lines = [f'wrk.headers["authorization"] = {json.dumps(token)}']
    if content is not None:
        lines += [
            'wrk.method = "POST"',
            'wrk.headers["content-type"] = "application/json"',
            f"wrk.body = {json.dumps(content)}",
        ]
    return "\n".join(lines) + "\n"


def _wrk(script: Path, url: str, seconds: int) -> Rate:
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "-s", str(script), url]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if not found or done.stderr or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(done.stdout + done.stderr[:500])
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Rate(float(found[1]), busy / seconds)


def _request(address: str, path: str, token: str, content: str | None) -> bytes:
    method, body = ("GET", b"") if content is None else ("POST", content.encode())
    head = f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(address).netloc}\r\nauthorization: {token}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


class _Repeating(asyncio.Protocol):
    """Sends its request again as soon as an answer is there, which must be a 200 with `wanted` in it."""

    def __init__(self, request: bytes, wanted: bytes) -> None:
        self.request = request
        self.wanted = wanted
        self.answers = 0
        self.refusal = b""
        self._received = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._is_whole():
            return
        if self._received.startswith(b"HTTP/1.1 200 ") and self.wanted in self._received:
            self.answers += 1
            self._received.clear()
            self._transport.write(self.request)
        else:
            self.refusal = bytes(self._received[:500])
            self._transport.abort()

    def _is_whole(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        found = re.search(rb"(?i)content-length: *(\d+)", self._received[:end])
        if found:
            return len(self._received) >= end + 4 + int(found[1])
        return self._received.endswith(b"\r\n0\r\n\r\n")


async def _send_requests(address: str, request: bytes, seconds: int, is_checked: bool) -> Rate:
    parts = urlsplit(address)
    assert parts.hostname and parts.port
    host, port = parts.hostname, parts.port
    loop, wanted = asyncio.get_running_loop(), b'"code":200' if is_checked else b""
    made = [await loop.create_connection(lambda: _Repeating(request, wanted), host, port) for _ in range(CONNECTIONS)]
    began, busy = time.perf_counter(), time.process_time()
    before = sum(protocol.answers for _, protocol in made)
    await asyncio.sleep(seconds)
    answers = sum(protocol.answers for _, protocol in made) - before
    taken = time.perf_counter() - began
    for transport, _ in made:
        transport.abort()
    refusals = [protocol.refusal for _, protocol in made if protocol.refusal]
    if refusals or not answers:
        raise RuntimeError(f"not answered: {refusals[:1]}")
    return Rate(answers / taken, (time.process_time() - busy) / taken)
