"""E: HTTP with randomly broken framing ends at most its own connection. FUZZ_SEED repeats a run."""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from tests.support.service import Client, Service, run_forked

pytestmark = pytest.mark.rest
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
REQUESTS = (
    b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /ping HTTP/1.0\r\n\r\n",
    b"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n" + b'{"username":"a","password":"b"}',
    b"POST /api/fs/get HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"8\r\n{\"path\":\r\n4\r\n\"/\"}\r\n0\r\n\r\n",
    b"PUT /api/fs/put HTTP/1.1\r\nHost: x\r\nFile-Path: /files/x\r\nExpect: 100-continue\r\n"
    b"Content-Length: 3\r\n\r\nabc",
    b"PROPFIND /dav/ HTTP/1.1\r\nHost: x\r\nDepth: 0\r\nContent-Length: 4\r\n\r\n<a/>",
    b"GET /d/files HTTP/1.1\r\nHost: x\r\nRange: bytes=0-\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
)  # fmt: skip
FRAGMENTS = (
    b"\r\n", b"\n", b"\r", b"\0", b": ", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n",
    b"ffffffffffffffff\r\n", b"HTTP/1.1", b"Content-Length: -1\r\n", b" ", b"\xff\xfe", b"%00", b"x" * 5000,
)  # fmt: skip


def mutate(rng: Random, stream: bytes) -> bytes:
    """Replace, insert, remove and repeat a few parts."""
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        start = rng.randrange(len(stream) + 1)
        stop = min(len(stream), start + rng.choice((0, 1, 4, 40)))
        stream = stream[:start] + rng.choice((b"", *FRAGMENTS, stream[start:stop] * 2)) + stream[stop:]
    return stream


def send_in_pieces(rng: Random, address: tuple[str, int], stream: bytes) -> None:
    with socket.create_connection(address, 10) as connection:
        connection.settimeout(0.05)
        try:
            while stream:
                size = rng.choice((1, 7, 100, 5000, len(stream)))
                connection.sendall(stream[:size])
                stream = stream[size:]
            connection.recv(1 << 16)
        except OSError:
            pass  # cut, or it waits for more


def test_broken_framing_of_http_ends_its_connection_at_most(tmp_path: Path) -> None:
    with run_forked(tmp_path / "data") as service:
        fuzz(service)
    assert "Traceback" not in (tmp_path / "data.log").read_text()


def fuzz(service: Service) -> None:
    seed = os.environ.get("FUZZ_SEED") or secrets.token_hex(4)
    print(f"FUZZ_SEED={seed}")
    rng, url = Random(seed), urlsplit(service.address)
    assert url.hostname is not None and url.port is not None
    servers, count, end = service.list_servers(), 0, time.monotonic() + FUZZ_SECONDS
    while time.monotonic() < end:
        stream = mutate(rng, b"".join(rng.choice(REQUESTS) for _ in range(rng.choice((1, 2, 5, 40)))))
        send_in_pieces(rng, (url.hostname, url.port), stream)
        count += 1
        if not count % 100:
            assert Client(service.address).http.get("/ping").status_code == 200, seed
    print(f"{count} connections")
    assert service.list_servers() == servers, seed  # none has died
