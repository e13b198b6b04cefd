"""The TCP side of a connection, in the shape that smbprotocol expects of its own, which cannot be limited in time when
it sends and polls with select(2), where a descriptor above 1,023 does not fit."""

from __future__ import annotations

import select
import socket
import struct
import threading
from typing import Any

from smbprotocol.exceptions import SMBConnectionClosed

SEND_SECONDS = 30.0  # that one message may take to leave
LOST_MILLISECONDS = 15_000  # after which the kernel gives up a peer that acknowledges nothing
LARGEST = 0xFFFFFF  # bytes: what the length before a message can say


class Transport:
    """A socket on which messages are sent by any thread and received by one."""

    def __init__(self, server: str, port: int, timeout: float) -> None:
        self._address = (server, port)
        self._timeout = timeout
        self._sending = threading.Lock()
        self._socket: socket.socket | None = None
        self.connected = False

    def connect(self) -> None:
        self._socket = socket.create_connection(self._address, self._timeout)
        self._socket.settimeout(SEND_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_MILLISECONDS)
        self.connected = True

    def close(self) -> None:
        """End the connection, which wakes who receives; never waits."""
        self.connected = False
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already

    def dispose(self) -> None:
        """Free the socket; called when nobody receives any more."""
        self.close()
        if self._socket is not None:
            self._socket.close()

    def send(self, given: Any) -> None:
        message: bytes = given if isinstance(given, bytes) else given.pack()  # an encrypted one comes as a structure
        if len(message) > LARGEST:
            raise ValueError(f"a message of {len(message)} bytes")
        try:
            with self._sending:
                self._require().sendall(struct.pack(">I", len(message)) + message)
        except OSError as error:
            self.close()  # what was sent may be the half of a message
            raise SMBConnectionClosed("the connection was lost") from error

    def recv(self, timeout: float) -> bytes:
        """The next message; empty when the connection has ended. TimeoutError when none began in time."""
        try:
            if not self._is_readable(timeout):
                raise TimeoutError
            length = int.from_bytes(self._receive(4), "big")
            return bytes(self._receive(length)) if length <= LARGEST else self._refuse()
        except TimeoutError:
            raise
        except (OSError, ValueError, EOFError):
            self.close()
            return b""

    def _refuse(self) -> bytes:
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
        found = bytearray(length)
        view = memoryview(found)
        try:
            while view:
                done = self._require().recv_into(view)
                if not done:
                    raise EOFError
                view = view[done:]
        except TimeoutError:
            raise EOFError from None  # in the middle of a message
        return found
