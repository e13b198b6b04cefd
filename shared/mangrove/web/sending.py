"""Answers whose body is a part of a file that the server sends by itself."""

from __future__ import annotations

from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mangrove.configuration import throttle
from mangrove.drivers.base import Driver
from mangrove.drivers.sending import OpensFiles, SendableFile

EXTENSION = "mangrove.sendfile"  # in a scope's `extensions`: {"sender": FileSender}, where the server has one
LEAST = 256 << 10  # bytes; fewer are sent as quickly through the process


class FileSender(Protocol):
    """What a server offers that can send files."""

    async def send(self, file: SendableFile, offset: int, count: int) -> None:
        """Send a part of a file as the body of the answer that has begun."""
        ...


def can_send_file(scope: Scope, driver: Driver, length: int) -> bool:
    """Whether the server may send so many bytes of a file without looking at them."""
    return (
        length >= LEAST
        and EXTENSION in scope.get("extensions", ())
        and isinstance(driver, OpensFiles)
        and not throttle.limits_client_downloads()
    )


class FileResponse(Response):
    """A part of an open file, which is closed afterwards."""

    def __init__(self, file: SendableFile, offset: int, length: int, status: int, headers: dict[str, str]) -> None:
        super().__init__(status_code=status, headers=headers)
        self._file = file
        self._offset = offset
        self._length = length

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sender: FileSender = scope["extensions"][EXTENSION]["sender"]
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await sender.send(self._file, self._offset, self._length)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._file.close()
