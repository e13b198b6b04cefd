"""The flow control of connections, and files that the kernel sends (sendfile(2)) after the bytes that uvicorn wrote."""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import SendableFile

MAX_SENDFILE_BYTES = 16 << 20  # bytes per call


class PipelineFlow(FlowControl):
    """The flow control of a connection. Reading does not resume while bytes wait to be parsed."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class ConnectionSender:
    """Sends files as the body of an answer, as `mangrove.web.serving.FileSender`."""

    def __init__(self, transport: Any, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._find_cycle: Any = None

    def follow(self, cycle: Any) -> None:
        """Return the sender of a request. It belongs to uvicorn's cycle, which the scope refers to."""
        self._find_cycle = weakref.ref(cycle)

    async def send(self, file: SendableFile, offset: int, count: int) -> None:
        """Send a part of a file.

        Raise EntryChanged if the file is shorter, ClientDisconnect if the client has disconnected.
        """
        cycle = self._find_cycle()
        await self._flush(cycle)
        number = os.dup(self._transport.get_extra_info("socket").fileno())
        try:
            while count:
                self._check(cycle)
                try:
                    done = await file.send_to(number, offset, min(count, MAX_SENDFILE_BYTES))
                except BlockingIOError:
                    await self._wait_until_writable(number)
                    continue
                except ConnectionError:
                    raise ClientDisconnect from None
                if not done:
                    raise EntryChanged("the file changed while it was read")
                offset, count = offset + done, count - done
                cycle.expected_content_length -= done
        finally:
            os.close(number)

    def _check(self, cycle: Any) -> None:
        if cycle.disconnected or self._transport.is_closing():
            raise ClientDisconnect

    async def _flush(self, cycle: Any) -> None:
        """Wait until the kernel has all earlier bytes."""
        self._transport.set_write_buffer_limits(high=0)  # from now on any remaining byte pauses the writer
        try:
            while self._transport.get_write_buffer_size():
                self._check(cycle)
                await self._flow.drain()
                await asyncio.sleep(0)
        finally:
            self._transport.set_write_buffer_limits(high=HIGH_WATER_LIMIT)

    async def _wait_until_writable(self, number: int) -> None:
        """Wait until the client has taken some bytes. The check for slow readers sees that the connection waits."""
        loop = asyncio.get_running_loop()
        self._flow.pause_writing()
        loop.add_writer(number, self._flow.resume_writing)
        try:
            await self._flow.drain()  # also resumed when the connection is lost
        finally:
            loop.remove_writer(number)
            self._flow.resume_writing()


ACCEPT_RETRY_SECONDS = 0.1  # after a connection could not be accepted: no descriptors are left


class Acceptor:
    """The object that uvicorn uses as a server. `make_protocol` returns the protocol of a connection.

    The socket is non-blocking.
    """

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
            return  # another process was faster, or the client disconnected
        except OSError:
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(ACCEPT_RETRY_SECONDS, self._listen)
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
            connection.close()  # the client disconnected

    def close(self) -> None:
        """Accept no more connections."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Wait until all accepted connections are with their protocols."""
        await asyncio.gather(*self._opening, return_exceptions=True)
