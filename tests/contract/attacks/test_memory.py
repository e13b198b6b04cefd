"""E: memory (PSS of all processes) grows by at most 64 MB for what a single connection sends."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import asyncssh
import pytest
from asyncssh.constants import FXP_INIT, FXP_OPEN, FXP_OPENDIR, FXP_READ, FXP_WRITE, MSG_GLOBAL_REQUEST
from asyncssh.packet import Boolean, Byte, String, UInt32, UInt64

from tests.protocol.protocols.people import Place, open_place
from tests.support.proc import get_family_pss
from tests.support.service import run_service

pytestmark = pytest.mark.long
MAX_GROWTH_BYTES = 64 << 20
SEND_SECONDS = 8.0  # for which a connection sends all that the service takes
GET = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
PIECE = 256 << 10


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("memory")
    root = folder / "root"
    root.mkdir()
    with (root / "large").open("wb") as file:
        os.truncate(file.fileno(), 1 << 30)
    with run_service(folder / "data") as service:
        place = open_place(service, folder)
        place.create_user("mem")
        for use in INPUTS.values():
            use(place, 0.5)  # first-use loading and caching are not growth
        yield place


def send_http(place: Place, head: bytes, body: bytes, seconds: float) -> None:
    """Send a head, then a body again and again, and read nothing."""
    url = urlsplit(place.service.address)
    with socket.create_connection((url.hostname, url.port), 1) as connection:
        end = time.monotonic() + seconds
        try:
            connection.sendall(head)
            while time.monotonic() < end:
                connection.sendall(body)
        except OSError:
            pass  # the service reads no more, or has cut it
        time.sleep(max(0, min(1, end - time.monotonic())))


def send_bare(place: Place, head: bytes, body: bytes, seconds: float) -> None:
    """The same to the port of SFTP, without a sign-in."""
    with socket.create_connection(("127.0.0.1", place.port), 1) as connection:
        end = time.monotonic() + seconds
        try:
            connection.sendall(head)
            while time.monotonic() < end:
                connection.sendall(body)
        except OSError:
            pass


Send = Callable[[asyncssh.SSHClientConnection, float], Awaitable[None]]


def use_ssh(send: Send) -> Callable[[Place, float], None]:
    async def work(place: Place, seconds: float) -> None:
        connection = await place.connect("mem")
        try:
            await send(connection, seconds)
        except (OSError, asyncssh.Error):
            pass  # the service has cut it
        connection.abort()

    return lambda place, seconds: asyncio.run(work(place, seconds))


async def fill(connection: Any, seconds: float, send: Callable[[], None]) -> None:
    """Send as long as the service reads."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and connection._transport is not None:
        if connection._transport.get_write_buffer_size() < 1 << 20:
            send()
        await asyncio.sleep(0)


async def open_raw(connection: Any, *packets: bytes) -> Any:
    """A session whose client grants every window and reads no answer."""
    writer, reader, _ = await connection.open_session(subsystem="sftp", encoding=None, window=(1 << 31) - 1)
    for packet in (Byte(FXP_INIT) + UInt32(3), *packets):
        writer.write(String(packet))
    await reader.readexactly(4)
    await asyncio.sleep(0.3)
    connection._transport.pause_reading()
    return writer


OPEN_LARGE = Byte(FXP_OPEN) + UInt32(1) + String(b"/disk/large") + UInt32(1) + UInt32(0)
OPEN_NEW = Byte(FXP_OPEN) + UInt32(1) + String(b"/disk/new") + UInt32(0x1A) + UInt32(0)
READ = String(Byte(FXP_READ) + UInt32(2) + String(bytes(4)) + UInt64(0) + UInt32(700 << 20))
WRITE = String(Byte(FXP_WRITE) + UInt32(2) + String(bytes(4)) + UInt64(0) + String(bytes(200 << 10)))
LIST = String(Byte(FXP_OPENDIR) + UInt32(3) + String(b"/disk"))


def make_packets(opened: bytes, packet: bytes) -> Send:
    async def send(connection: asyncssh.SSHClientConnection, seconds: float) -> None:
        writer = await open_raw(connection, opened)
        for _ in range(max(1, (1 << 20) // len(packet))):
            writer.write(packet)
        await fill(connection, seconds, lambda: writer.write(packet) if not writer.is_closing() else None)

    return send


async def send_environment(connection: Any, seconds: float) -> None:
    names = {f"NAME{number}": "v" * 30_000 for number in range(int(500 * seconds))}
    await asyncio.wait_for(connection.open_session(subsystem="sftp", env=names), 60)


async def send_requests(connection: Any, seconds: float) -> None:
    connection._transport.pause_reading()
    request = (MSG_GLOBAL_REQUEST, String(b"keepalive@openssh.com"), Boolean(True))
    await fill(connection, seconds, lambda: [connection.send_packet(*request) for _ in range(100)] and None)


async def send_reads_in_key_exchange(connection: Any, seconds: float) -> None:
    writer = await open_raw(connection, OPEN_LARGE)
    connection._send_kexinit()
    connection._kex_complete = True  # to this client alone
    await fill(connection, seconds, lambda: writer.write(READ * 20) if not writer.is_closing() else None)


INPUTS: Mapping[str, Callable[[Place, float], None]] = {
    "http pipelining": lambda place, seconds: send_http(place, b"", GET * 1000, seconds),
    "http head": lambda place, seconds: send_http(place, b"GET / HTTP/1.1\r\nx: ", b"y" * PIECE, seconds),
    "http json": lambda place, seconds: send_http(
        place, b"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n", b" " * PIECE, seconds
    ),
    "http chunked": lambda place, seconds: send_http(
        place,
        b"POST /api/fs/get HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n" * 9000,
        seconds,
    ),
    "webdav body": lambda place, seconds: send_http(
        place, b"PROPFIND /dav/ HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n", b"<a>" * 9000, seconds
    ),
    "ssh garbage": lambda place, seconds: send_bare(place, b"SSH-2.0-x\r\n", bytes(PIECE), seconds),
    "ssh version": lambda place, seconds: send_bare(place, b"", b"A" * PIECE, seconds),
    "sftp read": use_ssh(make_packets(OPEN_LARGE, READ)),
    "sftp write": use_ssh(make_packets(OPEN_NEW, WRITE)),
    "sftp folders": use_ssh(make_packets(OPEN_LARGE, LIST)),
    "ssh environment": use_ssh(send_environment),
    "ssh requests": use_ssh(send_requests),
    "ssh key exchange": use_ssh(send_reads_in_key_exchange),
}  # fmt: skip


def measure(place: Place) -> int:
    return get_family_pss(place.service.process.pid)


@pytest.mark.parametrize("name", INPUTS)
def test_memory_grows_little_for_what_a_connection_sends(place: Place, name: str) -> None:
    before = most = measure(place)
    sending = threading.Thread(target=INPUTS[name], args=(place, SEND_SECONDS))
    sending.start()
    while sending.is_alive():
        most = max(most, measure(place))
        time.sleep(0.1)
    sending.join()
    print(f"{name}: {before >> 20} MB before, {(most - before) >> 20} MB more at most")
    assert most - before <= MAX_GROWTH_BYTES
    assert place.service.process.poll() is None
