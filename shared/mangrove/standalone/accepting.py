"""Connections from a socket on which several processes listen: each takes one at a time, so whoever has time does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

AGAIN_SECONDS = 0.1  # after a connection could not be taken: there are no descriptors left


class Acceptor:
    """What uvicorn takes for a server. `make_protocol`: of one connection. The socket is not blocking."""

    def __init__(self, listener: socket.socket, make_protocol: Callable[[], Any]) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._listen()

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # another process was quicker, or the client left
        except OSError:
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(AGAIN_SECONDS, self._listen)
            return
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opening = self._loop.create_task(self._open(connection))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:
            connection.close()  # the client left

    def close(self) -> None:
        """Take no more."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Until all that were taken are with their protocols."""
        await asyncio.gather(*self._opening, return_exceptions=True)
