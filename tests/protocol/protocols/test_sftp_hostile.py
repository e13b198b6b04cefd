"""Clients that do not speak SSH or SFTP, or are idle, are disconnected and delay no other client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest
from asyncssh.constants import FXP_OPEN, FXP_READ, FXP_STAT, FXP_WRITE
from asyncssh.packet import Byte, String, UInt32, UInt64

from mangrove.protocols.sftp import server
from tests.protocol.protocols.people import Place

pytestmark = pytest.mark.xdist_group("doors")
GARBAGE = (
    b"", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n" + b"\xff" * 5000, b"SSH-1.0-old\r\n",
    b"\0" * 70_000, b"SSH-2.0-x\r\n" + (0xFFFFFFF0).to_bytes(4) + b"x" * 100, b"A" * 300_000,
)  # fmt: skip
PACKETS = (
    b"", Byte(255), Byte(FXP_STAT), Byte(FXP_STAT) + UInt32(7), Byte(FXP_STAT) + UInt32(7) + UInt32(0xFFFFFFFF),
    Byte(FXP_OPEN) + UInt32(7) + String(b"/x"), Byte(FXP_READ) + UInt32(7) + String(b"none") + UInt64(0) + UInt32(1),
    Byte(FXP_WRITE) + UInt32(7) + String(b"none") + UInt64((1 << 64) - 1) + String(b"x"), os.urandom(200),
)  # fmt: skip


@pytest.fixture(scope="module")
def ivy(place: Place) -> str:
    place.create_user("ivy")
    return "ivy"


async def look(place: Place, name: str) -> None:
    async with await place.connect(name) as connection, connection.start_sftp_client() as client:
        assert "disk" in set(map(str, await client.listdir("/")))


async def send_garbage(place: Place, content: bytes) -> None:
    """The server ends the connection, or waits for more until we end it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    try:
        writer.write(content)
        if content:
            writer.write_eof()
        await asyncio.wait_for(reader.read(), 60)
    except OSError:
        pass  # it is closed already, which the end of our side may find out first
    finally:
        writer.close()


def test_who_speaks_no_ssh_is_let_go(place: Place, ivy: str) -> None:
    async def work() -> None:
        for content in GARBAGE[1:]:
            await send_garbage(place, content)
        await look(place, ivy)

    asyncio.run(work())


async def exchange(place: Place, name: str, packets: Sequence[bytes]) -> None:
    """A session of SFTP, then packets that are none: an answer, or the end."""
    async with await place.connect(name) as connection:
        writer, reader, _ = await connection.open_session(subsystem="sftp", encoding=None)
        writer.write(String(Byte(1) + UInt32(3)))
        await asyncio.wait_for(reader.readexactly(5), 60)
        for packet in packets:
            writer.write(String(packet))
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 60)


def test_broken_packets_end_their_own_session_at_most(place: Place, ivy: str) -> None:
    async def work() -> None:
        async with await place.connect(ivy) as connection, connection.start_sftp_client() as client:
            for packet in PACKETS:
                await exchange(place, ivy, [packet])
            await exchange(place, ivy, [UInt32(0xFFFFFFF0)])
            assert await client.isdir("/disk")

    asyncio.run(work())
    assert place.service.process.poll() is None


@pytest.mark.long
def test_thousand_idle_connections_are_ended_oldest_first(place: Place, ivy: str) -> None:
    async def work() -> None:
        idle: list[Any] = []
        for _ in range(1000):
            idle.append(await asyncio.open_connection("127.0.0.1", place.port))
        await asyncio.wait_for(look(place, ivy), 60)
        ended = [asyncio.wait_for(reader.read(), 60) for reader, _ in idle[: 1000 - server.MAX_STRANGERS_PER_SOURCE]]
        await asyncio.gather(*ended)
        for _, writer in idle:
            writer.close()

    asyncio.run(work())


@pytest.mark.long
def test_eight_sessions_at_once_carry_64_mb_each_both_ways(place: Place, ivy: str, tmp_path: Any) -> None:
    content = os.urandom(64 << 20)
    (tmp_path / "up").write_bytes(content)

    async def carry(number: int) -> None:
        async with await place.connect(ivy) as connection, connection.start_sftp_client() as client:
            await client.put(str(tmp_path / "up"), f"/disk/wide-{number}")
            await client.get(f"/disk/wide-{number}", str(tmp_path / f"down-{number}"))

    async def work() -> None:
        await asyncio.gather(*(carry(number) for number in range(8)))

    asyncio.run(work())
    for number in range(8):
        assert (place.root / f"wide-{number}").read_bytes() == content == (tmp_path / f"down-{number}").read_bytes()
        (place.root / f"wide-{number}").unlink()
