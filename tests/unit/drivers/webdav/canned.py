"""A server whose answers the test sets, in the event loop of the test."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any, NamedTuple

from mangrove.drivers.base import DriverContext
from mangrove.drivers.webdav.driver import WebDav

HEAD = '<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">'
TAIL = "</D:multistatus>"


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run in an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(test(*args, **options))

    return run


class Request(NamedTuple):
    """`headers` by name in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Request], "bytes | Awaitable[bytes | None] | None"]


class Canned:
    """`requests`: all so far; `connections`: how many are open; `heads`: how many requests began."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.heads = 0
        self.address = ""

    def list_methods(self) -> list[str]:
        return [request.method for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while (reply := await self._answer_one(reader)) is not None:
                    writer.write(reply)
                    await writer.drain()
        finally:
            self.connections -= 1
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader) -> bytes | None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.heads += 1
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        elif "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        method, target, _ = first.split(" ")
        self.requests.append(Request(method, target, headers, body))
        answer = self.answer(self.requests[-1])
        return await answer if isinstance(answer, Awaitable) else answer


def reply(status: int, body: bytes | str = b"", length: int | None = None, **headers: str) -> bytes:
    """A response; keywords are headers, `_` for `-`; `length` announced instead of the body's."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(raw) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def entry(href: str, props: str = "", status: int = 200) -> str:
    return (
        f"<D:response><D:href>{href}</D:href><D:propstat><D:prop>{props}</D:prop>"
        f"<D:status>HTTP/1.1 {status} Text</D:status></D:propstat></D:response>"
    )


def failure(href: str, status: int) -> str:
    return f"<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 {status} Text</D:status></D:response>"


FOLDER = "<D:resourcetype><D:collection/></D:resourcetype>"
FILE = "<D:resourcetype/><D:getcontentlength>10</D:getcontentlength>"


def multistatus(*entries: str) -> bytes:
    return reply(207, HEAD + "".join(entries) + TAIL)


@asynccontextmanager
async def canned(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Canned]:
    replies = Canned(answer)
    server = await asyncio.start_server(replies.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    replies.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield replies
    finally:
        server.close()


@asynccontextmanager
async def storage(address: str, **more: Any) -> AsyncIterator[WebDav]:
    """A storage on a server, started and stopped."""
    options = {"address": address, "username": "me", "password": "hush hush", "root_folder_path": "/", **more}
    driver = WebDav(WebDav.Options.parse(json.dumps(options)), DriverContext())
    await driver.start()
    try:
        yield driver
    finally:
        await driver.stop()
