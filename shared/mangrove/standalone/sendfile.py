"""Files sent to clients by the kernel (sendfile(2)), behind what uvicorn wrote to the connection before."""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import Any

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import SendableFile

MOST = 16 << 20  # bytes in one call


class ConnectionSender:
    """Sends files as the body of an answer, as `mangrove.web.serving.FileSender`."""

    def __init__(self, transport: Any, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._find_cycle: Any = None

    def follow(self, cycle: Any) -> None:
        """Belong to uvicorn's cycle of a request, which refers to this by its scope."""
        self._find_cycle = weakref.ref(cycle)

    async def send(self, file: SendableFile, offset: int, count: int) -> None:
        """Send a part of a file; EntryChanged when it ends before, ClientDisconnect when nobody takes it any more."""
        cycle = self._find_cycle()
        await self._flush(cycle)
        number = os.dup(self._transport.get_extra_info("socket").fileno())
        try:
            while count:
                self._check(cycle)
                try:
                    done = await file.send_to(number, offset, min(count, MOST))
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
        """Wait until the kernel has all that was written before."""
        self._transport.set_write_buffer_limits(high=0)  # from now on any byte that is left pauses the writer
        try:
            while self._transport.get_write_buffer_size():
                self._check(cycle)
                await self._flow.drain()
                await asyncio.sleep(0)
        finally:
            self._transport.set_write_buffer_limits(high=HIGH_WATER_LIMIT)

    async def _wait_until_writable(self, number: int) -> None:
        """Until the client took something; who watches over slow readers sees that the connection waits."""
        loop = asyncio.get_running_loop()
        self._flow.pause_writing()
        loop.add_writer(number, self._flow.resume_writing)
        try:
            await self._flow.drain()  # resumed also when the connection is lost
        finally:
            loop.remove_writer(number)
            self._flow.resume_writing()
