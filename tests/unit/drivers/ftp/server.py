"""A small FTP server in this event loop that lies, stalls or dies where a test needs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mangrove.drivers.base import DriverContext
from mangrove.drivers.ftp.driver import FTP
from mangrove.drivers.ftp.options import FTPOptions

Reply = bytes | Callable[["Session"], Awaitable[bytes | None]]
NORMAL: Mapping[str, bytes] = {
    "USER": b"331 more", "PASS": b"230 in", "FEAT": b"211-\r\n UTF8\r\n MLST type*;\r\n211 end", "OPTS": b"200 ok",
    "TYPE": b"200 ok", "NOOP": b"200 ok", "CWD": b"250 ok", "QUIT": b"221 bye", "SIZE": b"213 5", "REST": b"350 ok",
    "MLST": b"250-\r\n type=file;size=5;modify=20260102030405; x\r\n250 end", "DELE": b"250 gone",
}  # fmt: skip


@dataclass
class FakeServer:
    """A server with other answers than NORMAL ones."""

    replies: dict[str, Reply] = field(default_factory=dict)
    """By command."""
    data: dict[str, bytes] = field(default_factory=dict)
    """The bytes of transfers, by command."""
    greeting: bytes = b"220 hello"
    after: bytes = b"226 done"
    log: list[str] = field(default_factory=list)
    """The commands received."""
    port: int = 0
    passive: asyncio.Server | None = None
    opened: int = 0
    _data: asyncio.Queue[asyncio.StreamWriter] = field(default_factory=asyncio.Queue)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        session = Session(self, writer)
        with suppress(ConnectionError):
            writer.write(self.greeting + b"\r\n")
            while line := (await reader.readline()).decode("latin-1").rstrip("\r\n"):
                self.log.append(line)
                reply = await session.answer(line.partition(" ")[0])
                if reply is None:
                    break
                writer.write(reply + b"\r\n")
        writer.close()

    async def open_passive(self) -> int:
        async def arrived(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._data.put(writer)

        if self.passive is None:
            self.passive = await asyncio.start_server(arrived, "127.0.0.1", 0)
        return int(self.passive.sockets[0].getsockname()[1])

    async def send(self, content: bytes) -> None:
        writer = await self._data.get()
        writer.write(content)
        writer.close()


@dataclass
class Session:
    server: FakeServer
    control: asyncio.StreamWriter

    async def answer(self, command: str) -> bytes | None:
        server = self.server
        special = server.replies.get(command)
        if callable(special):
            return await special(self)
        if special is not None:
            return special
        if command == "EPSV":
            return b"229 here (|||%d|)" % await server.open_passive()
        if command in server.data:
            self.control.write(b"150 coming\r\n")
            await server.send(server.data[command])
            return server.after
        return NORMAL.get(command, b"500 what?")


@asynccontextmanager
async def fake_ftp(server: FakeServer, **more: Any) -> AsyncIterator[FTP]:
    """Yield a storage on a server; it is not started."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    options = {
        "address": f"127.0.0.1:{server.port}", "encoding": "UTF-8", "username": "u", "password": "pass word",
        "root_folder_path": "/", "cwd_list": False, "explicit_tls": False, "tls_insecure_skip_verify": False, **more,
    }  # fmt: skip
    driver = FTP(FTPOptions(**options), DriverContext())
    try:
        yield driver
    finally:
        await driver.stop()
        for listener in (listening, server.passive):
            if listener is not None:
                listener.close()
        await asyncio.sleep(0)
