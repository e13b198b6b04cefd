"""Where a records engine answers: for everybody on the machine, or in a network namespace of its own.

A socket belongs to the namespace it was made in. Those of the engine's namespace are given through a Unix socket in
the data directory, to whoever may enter that; they are connected here, like any other.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

ATTEMPTS = 3  # at being given a socket: the process that gives them may be killed while it does


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url`: where it answers; `socket_path`: the Unix socket that gives sockets of its namespace, "" when it has none
    of its own."""

    url: str
    socket_path: str = ""

    def connect(self, seconds: float | None) -> socket.socket:
        """A connection; OSError, TimeoutError among them, when there is none within the seconds of one step."""
        found = urlsplit(self.url)
        address = (found.hostname or "", found.port or 80)
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
    """A new TCP socket of the namespace, which is not connected yet."""
    directory, name = os.path.split(path)
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(ATTEMPTS):
            with socket.socket(socket.AF_UNIX) as giver:
                giver.settimeout(seconds)
                giver.connect(f"/proc/self/fd/{folder}/{name}")  # a path of any length, where 107 bytes is the limit
                _, handles, _, _ = socket.recv_fds(giver, 1, 1, socket.MSG_CMSG_CLOEXEC)
            if handles:
                return socket.socket(fileno=handles[0])
    finally:
        os.close(folder)
    raise ConnectionError("no socket was given")


class EngineConnection(AWSHTTPConnection):  # type: ignore[misc]  # botocore has no types
    """An HTTP connection to a records engine in a namespace of its own."""

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._path = path

    def _new_conn(self) -> socket.socket:
        endpoint = Endpoint(f"http://{self.host}:{self.port}", self._path)
        try:
            return endpoint.connect(self.timeout)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error


class EnginePool(AWSHTTPConnectionPool):  # type: ignore[misc]  # as above
    """Connections to a records engine in a namespace of its own."""

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ConnectionCls = partial(EngineConnection, path)


def use_socket(client: Any, path: str) -> None:
    """Have a client of boto3 connect through the Unix socket at `path`; as it would by itself when that is ""."""
    if path:
        client._endpoint.http_session._pool_classes_by_scheme["http"] = partial(EnginePool, path)
