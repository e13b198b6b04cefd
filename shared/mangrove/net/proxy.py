"""A proxy for another program on this machine, which applies the guard to its connections.

It supports only CONNECT, on loopback, for clients that know its secret. The name is resolved here, once, and the
checked address is the one that is connected to: so the one check covers redirects of the other program, and names that
resolve differently the second time.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import secrets
import socket
import threading
from typing import NamedTuple

import httpcore

from mangrove.core.problems import Unreachable
from mangrove.core.telemetry import log_event
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress
from mangrove.net.client import CONNECT_TIMEOUT, NETWORK_ERRORS, GuardedBackend

HOST = "127.0.0.1"
HEAD_TIMEOUT = 10.0  # seconds
MAX_HEAD = 16 << 10  # bytes
MAX_TUNNELS = 512
BLOCK_SIZE = 64 << 10  # bytes
STOP_TIMEOUT = 5.0  # seconds
USER = "mangrove"
_REQUEST = re.compile(r"CONNECT (\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5}) HTTP/1\.[01]")
_AUTHORIZATION = re.compile(r"^proxy-authorization:[ \t]*basic[ \t]+(\S+)[ \t]*$", re.IGNORECASE | re.MULTILINE)


class ProxyAccess(NamedTuple):
    """The address and credentials of the proxy for another program."""

    url: str
    user: str
    password: str


class _Refusal(Exception):
    """An answer other than a tunnel: its status line."""


class GuardedProxy:
    """The proxy of this process, in a thread of its own from the first `open` on."""

    def __init__(self) -> None:
        self._password = secrets.token_urlsafe(32)
        self._policy = AddressPolicy()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._port = 0
        self._tunnels = 0

    def open(self, policy: AddressPolicy) -> ProxyAccess:
        """Start it; `policy` is the administrator's present one and decides on every connection from now on."""
        with self._lock:
            self._policy = policy
            if self._thread is None:
                listener = socket.create_server((HOST, 0))
                self._port = listener.getsockname()[1]
                self._thread = threading.Thread(target=asyncio.run, args=(self._run(listener),), name="guarded proxy")
                self._thread.daemon = True
                self._thread.start()
                self._started.wait()
        return ProxyAccess(f"http://{HOST}:{self._port}", USER, self._password)

    def close(self) -> None:
        """Stop it, with all tunnels."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(STOP_TIMEOUT)

    async def _run(self, listener: socket.socket) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, sock=listener, limit=MAX_HEAD)
        self._started.set()
        await self._stop.wait()
        server.close()  # the tunnels end with the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tunnels += 1
        try:
            remote = await self._connect(reader)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _relay(reader, writer, remote)
        except _Refusal as refusal:
            writer.write(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        except (OSError, *NETWORK_ERRORS):
            pass  # one end is closed
        finally:
            self._tunnels -= 1
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader) -> httpcore.AsyncNetworkStream:
        """Return the requested connection. Raise _Refusal if it is not available."""
        host, port = self._parse(await _read_head(reader))
        if self._tunnels > MAX_TUNNELS:
            raise _Refusal("503 Service Unavailable")
        try:
            return await GuardedBackend(self._policy).connect_tcp(host, port, CONNECT_TIMEOUT)
        except ForbiddenAddress:
            log_event("connection of aria2 refused", host=host[:100], port=port)
            raise _Refusal("403 Forbidden") from None
        except (Unreachable, *NETWORK_ERRORS):
            raise _Refusal("502 Bad Gateway") from None

    def _parse(self, head: str) -> tuple[str, int]:
        """Return host and port of a request with the secret."""
        authorization = _AUTHORIZATION.search(head.replace("\r\n", "\n"))
        if authorization is None or not secrets.compare_digest(
            _decode(authorization[1]), f"{USER}:{self._password}".encode()
        ):
            raise _Refusal('407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="mangrove"')
        match = _REQUEST.fullmatch(head.partition("\r\n")[0])
        if match is None or not 0 < int(match[2]) < 65536:
            raise _Refusal("405 Method Not Allowed")
        return match[1].strip("[]"), int(match[2])


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


async def _read_head(reader: asyncio.StreamReader) -> str:
    try:
        async with asyncio.timeout(HEAD_TIMEOUT):
            return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        raise _Refusal("400 Bad Request") from None


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, remote: httpcore.AsyncNetworkStream
) -> None:
    """Copy bytes in both directions until one end has no more to send."""

    async def send() -> None:
        while block := await reader.read(BLOCK_SIZE):
            await remote.write(block)

    async def receive() -> None:
        while block := await remote.read(BLOCK_SIZE):
            writer.write(block)
            await writer.drain()

    ways = [asyncio.ensure_future(send()), asyncio.ensure_future(receive())]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await remote.aclose()
