"""Connections to one HTTP server that are used again, through the proxy that the environment names."""

from __future__ import annotations

import base64
import os
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from mangrove.core.http_answers import HttpAnswer

MAX_IDLE_CONNECTIONS = 64
MAX_JOINED_BYTES = 64 << 10  # of a body that is sent together with the head


class HttpAddress(Protocol):
    """The address of a server."""

    @property
    def scheme(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int | None: ...
    @property
    def netloc(self) -> str: ...


class HttpConnections:
    """Connections to one server, or to the proxy before it, that are used again.

    All methods may be called in any thread.
    """

    def __init__(
        self,
        connect: Callable[[], socket.socket],
        read_seconds: float,
        target_prefix: str = "",
        proxy_headers: Mapping[str, str] | None = None,
    ) -> None:
        """`target_prefix`: the text before the path of each request; `proxy_headers`: headers of each request."""
        self._connect = connect
        self._read_seconds = read_seconds
        self._target_prefix = target_prefix
        self._proxy_headers = proxy_headers or {}
        self._idle: list[socket.socket] = []

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections. Requests in progress continue, and the next one opens another."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes | bytearray = b"") -> HttpAnswer:
        """Send a request and return its answer, which must be closed. Raise OSError if there is none.

        Raise ValueError for a header that HTTP cannot carry.
        """
        lines = {**headers, **self._proxy_headers, "content-length": str(len(body))}
        head = make_head(method, self._target_prefix + target, lines)
        connection = self._take()
        try:
            if len(body) <= MAX_JOINED_BYTES:
                connection.sendall(head + body)
            else:
                connection.sendall(head)
                connection.sendall(body)
            return HttpAnswer(connection, method != "HEAD", self._release)
        except BaseException:
            connection.close()
            raise

    def _take(self) -> socket.socket:
        """Return a connection that the server has not closed, or a new one."""
        while self._idle:
            with suppress(IndexError):
                connection = self._idle.pop()
                if not is_dropped(connection):
                    return connection
                connection.close()
        connection = self._connect()
        connection.settimeout(self._read_seconds)
        return connection

    def _release(self, connection: socket.socket) -> None:
        if len(self._idle) < MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()


def make_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request. Raise ValueError for a header that HTTP cannot carry."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError("a header of the request has a line break")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


def make_connections(
    address: HttpAddress, context: ssl.SSLContext | None, connect_seconds: float, read_seconds: float
) -> HttpConnections:
    """Return the connections to an address, through the proxy that the environment names. `context`: None without
    TLS.
    """
    proxy = _find_proxy(address)
    connect = partial(_connect, address, context, proxy, connect_seconds)
    if proxy is None or context is not None:
        return HttpConnections(connect, read_seconds)
    # a proxy without a tunnel needs the whole address
    return HttpConnections(connect, read_seconds, f"http://{address.netloc}", _make_proxy_headers(proxy))


def _connect(
    address: HttpAddress, context: ssl.SSLContext | None, proxy: SplitResult | None, seconds: float
) -> socket.socket:
    """Return a new connection. Raise OSError, or TimeoutError if a step takes longer than `seconds`."""
    default_port = 80 if context is None else 443
    host, port = (address.host, address.port) if proxy is None else (proxy.hostname or "", proxy.port)
    server: Any = (_encode_host(host), port or default_port)
    connection = socket.create_connection(server, seconds)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return connection
        if proxy is not None:
            name = f"[{address.host}]" if ":" in address.host else address.host
            _open_tunnel(connection, f"{name}:{address.port or default_port}", _make_proxy_headers(proxy))
        return context.wrap_socket(connection, server_hostname=_encode_host(address.host))
    except BaseException:
        connection.close()
        raise


def _encode_host(host: str) -> str | bytes:
    """Return the name of a host as bytes: of a text `socket` and `ssl` make bytes by the codec "idna", whose import
    takes milliseconds.
    """
    return host.encode() if host.isascii() else host


def _open_tunnel(connection: socket.socket, server: str, headers: Mapping[str, str]) -> None:
    """Ask a proxy for a tunnel to a server. Raise ConnectionError if it refuses."""
    connection.sendall(make_head("CONNECT", server, {"host": server, **headers}))
    answer = HttpAnswer(connection, has_body=False)
    if answer.status != HTTPStatus.OK:
        raise ConnectionError(f"the proxy refuses a tunnel with the status {answer.status}")


def _make_proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """Return the headers that identify this client at a proxy."""
    if proxy.username is None:
        return {}
    name = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(name.encode()).decode()}"}


def _find_proxy(address: HttpAddress) -> SplitResult | None:
    """Return the proxy that the environment names for an address."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # takes long to import

    url = getproxies().get(address.scheme)
    return None if not url or proxy_bypass(address.host) else urlsplit(url if "://" in url else f"http://{url}")


def is_dropped(connection: socket.socket) -> bool:
    """True if the server closed an idle connection: only then there is anything to read."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
