"""E: packets of SFTP that are broken at random end their own session at most. FUZZ_SEED repeats a run."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from random import Random
from typing import Any

import pytest
from asyncssh import constants
from asyncssh.packet import Byte, String, UInt32, UInt64

from tests.protocol.protocols.people import Place

pytestmark = [pytest.mark.rest, pytest.mark.xdist_group("doors")]
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
KINDS = [value for name, value in vars(constants).items() if name.startswith("FXP_") and isinstance(value, int)]
EXTENSIONS = (b"limits@openssh.com", b"check-file-name", b"statvfs@openssh.com", b"posix-rename@openssh.com", b"none")
PATHS = (b"/disk", b"/disk/fuzz", b"/disk/fuzz/a", b"/", b"", b"..", b"/\xff", b"\0", b"/disk/" + b"n" * 300)
FLAGS = (1, 2, 8, 0x1A, 0x3F, 0xFFFFFFFF)
OFFSETS = (0, 1, 1 << 20, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)


def make_packet(rng: Random) -> bytes:
    """A request with fields of the right types in a random order, and now and then cut or changed."""
    kind = rng.choice(KINDS)
    body = UInt32(rng.randrange(1 << 32))
    if kind == constants.FXP_EXTENDED:
        body += String(rng.choice(EXTENSIONS))
    for _ in range(rng.randrange(5)):
        handle = rng.randrange(4).to_bytes(4)
        field = rng.choice((String(rng.choice(PATHS)), String(handle), UInt32(rng.choice(FLAGS)),
                            UInt64(rng.choice(OFFSETS)), String(rng.randbytes(rng.choice((1, 5000))))))  # fmt: skip
        body += field
    if rng.random() < 0.2:
        position = rng.randrange(len(body))
        body = body[:position] + rng.randbytes(rng.choice((0, 1, 8))) + body[position + rng.randrange(5) :]
    return String(Byte(kind) + body) if rng.random() < 0.98 else UInt32(rng.randrange(1 << 32)) + body


async def fuzz(place: Place, rng: Random, end: float) -> int:
    count = 0
    while time.monotonic() < end:
        async with await place.connect("fay") as connection:
            writer, reader, _ = await connection.open_session(subsystem="sftp", encoding=None)
            writer.write(String(Byte(constants.FXP_INIT) + UInt32(3)))
            taking: asyncio.Task[Any] = asyncio.ensure_future(reader.read())
            for _ in range(rng.choice((1, 20, 200))):
                if taking.done() or writer.is_closing():
                    break
                writer.write(make_packet(rng))
                count += 1
                await asyncio.sleep(0)
            if not writer.is_closing():
                writer.write_eof()
            await asyncio.wait_for(taking, 60)
    return count


def test_broken_packets_of_sftp_end_their_session_at_most(place: Place) -> None:
    seed = os.environ.get("FUZZ_SEED") or secrets.token_hex(4)
    print(f"FUZZ_SEED={seed}")
    place.create_user("fay")
    (place.root / "fuzz").mkdir()
    servers = place.service.list_servers()
    count = asyncio.run(fuzz(place, Random(seed), time.monotonic() + FUZZ_SECONDS))
    print(f"{count} packets")
    assert place.service.list_servers() == servers, seed  # none has died
    log = (place.service.data.parent / f"{place.service.data.name}.log").read_text()
    assert "internal error" not in log and "Traceback" not in log, seed
    assert not place.service.find_unfinished(place.root), seed
