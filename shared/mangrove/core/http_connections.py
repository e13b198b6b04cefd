"""Connections to one HTTP server that are used again, through the proxy that the environment names."""

from __future__ import annotations

import base64
import os
import select
import socket
import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit


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

    All methods may be called in any thread. `context`: None without TLS.
    """

    def __init__(
        self, address: HttpAddress, context: ssl.SSLContext | None, connect_seconds: float, read_seconds: float
    ) -> None:
        self._address = address
        self._context = context
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._proxy = _find_proxy(address)
        self._idle: list[HTTPConnection] = []
        self._is_closed = False

    @property
    def target_prefix(self) -> str:
        """The text before the path of a request: a proxy without a tunnel needs the whole address."""
        return f"http://{self._address.netloc}" if self._proxy is not None and self._context is None else ""

    @property
    def proxy_headers(self) -> dict[str, str]:
        """The headers that identify this client at the proxy."""
        if self._proxy is None or self._proxy.username is None:
            return {}
        name = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return {"proxy-authorization": f"Basic {base64.b64encode(name.encode()).decode()}"}

    def take(self) -> HTTPConnection:
        """Return a connection that the server has not closed, or a new one."""
        while self._idle:
            with suppress(IndexError):
                connection = self._idle.pop()
                if not is_dropped(connection.sock):
                    return connection
                connection.close()
        connection = self._connect()
        connection.sock.settimeout(self._read_seconds)
        return connection

    def _connect(self) -> HTTPConnection:
        address, seconds = self._address, self._connect_seconds
        server = (address.host, address.port) if self._proxy is None else (self._proxy.hostname or "", self._proxy.port)
        if self._context is None:
            connection = HTTPConnection(*server, timeout=seconds)
        else:
            connection = HTTPSConnection(*server, timeout=seconds, context=self._context)
            if self._proxy is not None:
                connection.set_tunnel(address.host, address.port, self.proxy_headers)
        if connection.host.isascii():
            # Of a text, `socket` and `ssl` make bytes by the codec "idna", whose import takes milliseconds.
            connection.host = connection.host.encode()  # type: ignore[assignment]  # bytes are accepted as well
        connection.connect()
        return connection

    def release(self, connection: HTTPConnection) -> None:
        if self._is_closed:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close the idle connections. Requests in progress continue."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()


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
