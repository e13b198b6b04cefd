"""The connection to an SMB server: that of smbprotocol with a time limit for every answer.

It waits for credits, follows no links, and reports its end as one kind of failure. Its transport polls with poll(2)
instead of select(2), which accepts no descriptor above 1,023, and limits the time of sending.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from smbprotocol import MAX_PAYLOAD_SIZE
from smbprotocol.connection import Connection, Request
from smbprotocol.exceptions import SMBConnectionClosed, SMBException, SMBResponseException
from smbprotocol.header import Commands, NtStatus

from mangrove.core.problems import Unreachable
from mangrove.drivers.smb.messages import SmbMessage
from mangrove.drivers.threads import is_given_up

CONNECT_TIMEOUT_SECONDS = 10.0  # for each answer while the connection is made
ANSWER_TIMEOUT_SECONDS = 20.0  # for all other answers: disks may have to start
PROBE_TIMEOUT_SECONDS = 60.0  # for the first answer on a new connection, while all others hang
ECHO_TIMEOUT_SECONDS = 3.0  # for an answer to ECHO, after another answer was late
SEND_TIMEOUT_SECONDS = 30.0  # for one message
PEER_TIMEOUT_MILLISECONDS = 15_000  # after which the kernel gives up a peer that does not acknowledge
MAX_MESSAGE_BYTES = 0xFFFFFF  # maximum length before a message
SESSION_EXPIRED = 0xC000035C
_ENDING = {
    NtStatus.STATUS_USER_SESSION_DELETED, NtStatus.STATUS_NETWORK_NAME_DELETED, NtStatus.STATUS_FILE_CLOSED,
    SESSION_EXPIRED,
}  # fmt: skip


class Transport:
    """A socket on which any thread can send messages and one thread receives them, with the interface of
    smbprotocol's own.
    """

    def __init__(self, server: str, port: int, timeout: float) -> None:
        self._address = (server, port)
        self._timeout = timeout
        self._sending = threading.Lock()
        self._socket: socket.socket | None = None
        self.connected = False

    def connect(self) -> None:
        self._socket = socket.create_connection(self._address, self._timeout)
        self._socket.settimeout(SEND_TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MILLISECONDS)
        self.connected = True

    def close(self) -> None:
        """End the connection and wake the receiving thread, without waiting."""
        self.connected = False
        if self._socket is not None:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)

    def dispose(self) -> None:
        """Free the socket; called when the receiving thread has ended."""
        self.close()
        if self._socket is not None:
            self._socket.close()

    def send(self, content: Any) -> None:
        message: bytes = content if isinstance(content, bytes) else content.pack()  # an encrypted one is a structure
        if len(message) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(message)} bytes")
        try:
            with self._sending:
                self._require().sendall(struct.pack(">I", len(message)) + message)
        except OSError as error:
            self.close()  # a part of the message may have been sent
            raise SMBConnectionClosed("the connection was lost") from error

    def recv(self, timeout: float) -> bytes:
        """Return the next message, or nothing after the end of the connection.

        Raise TimeoutError if none started in time.
        """
        try:
            if not self._is_readable(timeout):
                raise TimeoutError
            length = int.from_bytes(self._receive(4), "big")
            if length > MAX_MESSAGE_BYTES:
                raise ValueError("not a message of SMB")
            return bytes(self._receive(length))
        except TimeoutError:
            raise
        except (OSError, ValueError, EOFError):
            self.close()
            return b""

    def _require(self) -> socket.socket:
        if self._socket is None or not self.connected:
            raise ConnectionResetError
        return self._socket

    def _is_readable(self, timeout: float) -> bool:
        poll = select.poll()
        poll.register(self._require(), select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def _receive(self, length: int) -> bytearray:
        content = bytearray(length)
        view = memoryview(content)
        try:
            while view:
                count = self._require().recv_into(view)
                if not count:
                    raise EOFError
                view = view[count:]
        except TimeoutError:
            raise EOFError from None  # in the middle of a message
        return content


class SmbConnection(Connection):  # type: ignore[misc]  # smbprotocol has no types
    """A connection to a server."""

    def __init__(self, host: str, port: int) -> None:
        self._transport: Transport | None = None
        self._credits = threading.Lock()
        self._is_lost = False
        self.answer_timeout_seconds = CONNECT_TIMEOUT_SECONDS
        super().__init__(uuid4(), host, port, require_signing=True)

    @property
    def transport(self) -> Any:
        return self._transport

    @transport.setter
    def transport(self, original: Any) -> None:
        self._transport = original and Transport(original.server, original.port, original.timeout)

    @property
    def is_ended(self) -> bool:
        """True if the connection must not be used any more."""
        return self._is_lost or self._transport is None or not self._transport.connected

    def end(self) -> None:
        """Close the connection without waiting."""
        self._is_lost = True
        if self._transport is not None:
            self._transport.close()

    def _check_worker_running(self) -> None:
        if self.is_ended or self._t_exc is not None:
            self.end()
            raise SMBConnectionClosed("the connection was lost") from self._t_exc

    def _process_message_thread(self) -> None:
        try:
            super()._process_message_thread()
        except RuntimeError:
            pass  # it iterates a dictionary that other threads change
        finally:
            self._transport.dispose()  # type: ignore[union-attr]  # there is one once the thread runs
            for request in list(self.outstanding_requests.values()):
                request.response_event.set()

    def _calculate_credit_charge(self, message: Any) -> int:
        if isinstance(message, SmbMessage):
            return -(-message.payload // MAX_PAYLOAD_SIZE) if self.supports_multi_credit else 0
        charge: int = super()._calculate_credit_charge(message)
        return charge

    def _send(self, messages: Any, *args: Any, **options: Any) -> list[Request]:
        """Send messages as smbprotocol does, when the server has granted enough credits for them."""
        if is_given_up() and any(message.COMMAND != Commands.SMB2_CLOSE for message in messages):
            raise Unreachable
        charge = sum(max(1, self._calculate_credit_charge(message)) for message in messages)
        end = time.monotonic() + self.answer_timeout_seconds
        with self._credits:
            while self.sequence_window["high"] - self.sequence_window["low"] < charge:
                self._check_worker_running()
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(0.002)
            requests: list[Request] = super()._send(messages, *args, **options)
            return requests

    def receive(
        self, request: Request, wait: bool = True, timeout: float | None = None, resolve_symlinks: bool = False
    ) -> Any:
        """Return the answer to a request. Raise TimeoutError if it is late.

        The connection ends if the server does not answer an ECHO either.
        """
        try:
            return super().receive(request, wait, timeout or self.answer_timeout_seconds, resolve_symlinks=False)
        except SMBResponseException as error:
            if error.status in _ENDING:
                self._is_lost = True
            raise
        except SMBConnectionClosed:
            raise
        except SMBException as error:
            if request.message["command"].get_value() == Commands.SMB2_ECHO or not self._answers():
                self.end()
            raise TimeoutError from error

    def _answers(self) -> bool:
        try:
            self.echo(sid=next(iter(self.session_table), 0), timeout=ECHO_TIMEOUT_SECONDS)
            return True
        except (SMBException, OSError):
            return False


def probe_server(host: str, port: int) -> None:
    """Return when a server answers on a new connection. Fail after PROBE_TIMEOUT_SECONDS."""
    connection = SmbConnection(host, port)
    try:
        connection.connect(timeout=PROBE_TIMEOUT_SECONDS)
    finally:
        connection.end()
