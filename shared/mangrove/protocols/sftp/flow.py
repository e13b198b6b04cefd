"""Flow control of one SSH connection: it reads nothing while answers wait to be sent or packets to be processed.

asyncssh limits the bytes that a channel receives (its window). It does not limit the bytes that a client does not take,
the bytes that arrive while it processes a packet, or the packets that it defers during a key exchange.

This package relies on names of asyncssh that its documentation does not promise. The version is pinned, and a test
checks each of them: `SSHServerConnection` with `_transport`, `_inpbuf` and `_deferred_packets`; `SSHServerChannel` with
`_env`; `SSHServerStreamSession` with `_chan`, `_conn` and `_init_sftp_server`; `SFTPServerHandler` with `_extensions`,
`_packet_handlers`, `_return_types`, `_file_handles`, `_dir_handles`, `_server`, `_reader`, `_writer`, `_cleanup`,
`_process_close`, `_process_limits`, `recv_packet`, `log_received_packet` and `log_sent_packet`.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from asyncssh import SSHServerConnection

from mangrove.core.telemetry import log_event

ANSWER_WINDOW_BYTES = 1 << 20  # of answers that a client has not taken, per connection and per channel
MAX_UNPROCESSED_BYTES = 256 << 10  # received while a packet is processed
MAX_DEFERRED_PACKETS = 4096  # deferred until the end of a key exchange
POLL_SECONDS = 0.02


class ConnectionFlow(asyncio.Protocol):
    """A layer between the transport of a connection and asyncssh's protocol."""

    def __init__(self, connection: SSHServerConnection) -> None:
        self._connection: Any = connection
        self._transport = cast(asyncio.Transport, self._connection._transport)
        self._is_writable = asyncio.Event()
        self._is_writable.set()
        self._is_paused = False
        self._transport.set_write_buffer_limits(ANSWER_WINDOW_BYTES)
        self._transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)
        self._follow()

    def eof_received(self) -> None:
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_writable.set()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_writable.clear()
        self._follow()

    def resume_writing(self) -> None:
        self._is_writable.set()
        self._follow()

    def _follow(self) -> None:
        """Pause or resume reading."""
        if self._transport.is_closing():
            return
        if len(self._connection._deferred_packets) > MAX_DEFERRED_PACKETS:
            log_event("connection closed", protocol="sftp", reason="too many packets during a key exchange")
            self._connection.abort()
            return
        is_processing = len(self._connection._inpbuf) > MAX_UNPROCESSED_BYTES
        if is_processing:
            asyncio.get_running_loop().call_later(POLL_SECONDS, self._follow)
        self._pause(is_processing or not self._is_writable.is_set())

    def _pause(self, is_paused: bool) -> None:
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    async def wait_until_taken(self) -> None:
        """Wait until the client has taken enough answers to get another one."""
        await self._is_writable.wait()
        while self._connection._deferred_packets:  # noqa: ASYNC110 - asyncssh does not signal the end of an exchange
            await asyncio.sleep(POLL_SECONDS)
