"""The address of a records engine: for all programs of the computer, or in a network namespace of its own.

A socket belongs to the namespace in which it was made. A process that may enter the data directory receives sockets of
the engine's namespace through a Unix socket there, and connects them like others.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from mangrove.core import unix_sockets

MAX_ATTEMPTS = 3  # to receive a socket: the process that sends it may be killed meanwhile


@dataclass(frozen=True, slots=True)
class EngineEndpoint:
    """The address of a records engine."""

    url: str
    socket_path: str = ""
    """The Unix socket that sends sockets of the namespace of the engine; "" if it has no namespace of its own."""

    def connect(self, seconds: float | None) -> socket.socket:
        """Return a connection. Raise OSError, or TimeoutError if a step takes longer than `seconds`."""
        parts = urlsplit(self.url)
        address = (parts.hostname or "", parts.port or 80)
        if not self.socket_path:
            return socket.create_connection(address, seconds)
        connection = _receive_socket(self.socket_path, seconds)
        try:
            connection.settimeout(seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
        return connection


def _receive_socket(path: str, seconds: float | None) -> socket.socket:
    """Return a new TCP socket of the namespace, which is not connected yet."""
    for _ in range(MAX_ATTEMPTS):
        with unix_sockets.connect(Path(path), seconds) as sender:
            _, handles, _, _ = socket.recv_fds(sender, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if handles:
            return socket.socket(fileno=handles[0])
    raise ConnectionError("no socket was received")


class EngineConnection(AWSHTTPConnection):  # type: ignore[misc]  # botocore has no types
    """An HTTP connection to a records engine in a namespace of its own."""

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._path = path

    def _new_conn(self) -> socket.socket:
        endpoint = EngineEndpoint(f"http://{self.host}:{self.port}", self._path)
        try:
            return endpoint.connect(self.timeout)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error


class EnginePool(AWSHTTPConnectionPool):  # type: ignore[misc]  # botocore has no types
    """Connections to a records engine in a namespace of its own."""

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ConnectionCls = partial(EngineConnection, path)


def use_socket(client: Any, path: str) -> None:
    """Let a botocore client connect through the Unix socket at `path`, unless that is ""."""
    if path:
        client._endpoint.http_session._pool_classes_by_scheme["http"] = partial(EnginePool, path)
