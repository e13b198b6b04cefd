"""Outgoing HTTP: a client that checks every connection it makes, and its failures as problems.

The address is checked when it is connected to. So the one check covers redirects, and names that resolve differently
the second time.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx
import idna

from mangrove.core.problems import Problem, Unreachable
from mangrove.core.runtime import CacheKind
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress, resolve_host

CONNECT_TIMEOUT = 10.0  # seconds, including the resolution of the name
READ_TIMEOUT = 60.0  # seconds between two pieces of a response
MAX_RESPONSE = 16 << 20  # bytes that `request` reads
MAX_REDIRECTS = 10
CONNECTIONS = 10  # concurrent ones of one client, by default
TLS_CONTEXTS: CacheKind[str, ssl.SSLContext] = CacheKind("TLS contexts", 1)
NETWORK_ERRORS = (
    httpx.HTTPError,
    httpx.InvalidURL,
    idna.IDNAError,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


def get_tls_context() -> ssl.SSLContext:
    """Return the context with the trusted certificates. The first call takes some milliseconds."""
    contexts = TLS_CONTEXTS.open()
    context = contexts.get("trusted")
    if context is None:
        context = httpx.create_ssl_context()
        contexts.put("trusted", context)
    return context


def _make_unverified_context() -> ssl.SSLContext:
    """Return the context for a server whose certificate must not be checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves names itself and connects only to addresses that the policy permits."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        end = time.monotonic() + (timeout or CONNECT_TIMEOUT)
        try:
            addresses = await asyncio.wait_for(resolve_host(host, port), timeout or CONNECT_TIMEOUT)
        except TimeoutError:
            raise httpcore.ConnectTimeout("the name was not resolved in time") from None
        permitted = [str(address) for address in addresses if self._policy.permits(host, address)]
        if not permitted:
            raise ForbiddenAddress.for_host(host)
        for remaining in range(len(permitted), 0, -1):
            seconds = max((end - time.monotonic()) / remaining, 0.1)
            try:
                address = permitted[-remaining]
                return await self._backend.connect_tcp(address, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if remaining == 1:
                    raise
        raise AssertionError("permitted has at least one address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise ForbiddenAddress.for_host("a local socket")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._response.aiter_stream():
            yield block

    async def aclose(self) -> None:
        await self._response.aclose()


class GuardedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that checks every connection. It uses no proxy and raises httpcore's exceptions.

    With `idle`, unused connections are closed after so many seconds, whether or not there are requests.
    """

    def __init__(
        self, policy: AddressPolicy, *, verify: bool = True, connections: int = CONNECTIONS, idle: float | None = None
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=get_tls_context() if verify else _make_unverified_context(),
            max_connections=connections,
            keepalive_expiry=idle,
            network_backend=GuardedBackend(policy),
        )
        self._idle = idle
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        response = await self._pool.handle_async_request(
            httpcore.Request(
                request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
            )
        )
        self._watch()
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    def _watch(self) -> None:
        if self._idle is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._close_later)

    def _close_later(self) -> None:
        self._timer = None
        self._closing = asyncio.create_task(self._close_expired())

    async def _close_expired(self) -> None:
        for connection in self._pool.connections:
            if connection.has_expired():
                await connection.aclose()
        if any(not connection.is_closed() for connection in self._pool.connections):
            self._watch()

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._pool.aclose()


def make_client(
    policy: AddressPolicy, *, verify: bool = True, connections: int = CONNECTIONS, idle: float | None = None
) -> httpx.AsyncClient:
    """Return a client that checks every connection, follows no redirect and reads nothing from the environment.

    Only the trusted certificates may come from SSL_CERT_FILE; none is needed without `verify`. `connections`: the
    number of concurrent ones, others wait; `idle`: seconds after which an unused connection is not used again.
    """
    transport = GuardedTransport(policy, verify=verify, connections=connections, idle=idle)
    timeout = httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "Mangrove"}
    return httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False, headers=headers)


async def request(client: httpx.AsyncClient, method: str, url: str, **options: Any) -> httpx.Response:
    """Return status and body of a small response, whatever its status.

    Raise Problem if it is larger than MAX_RESPONSE, or Unreachable with only the reason as its message.
    """
    with translate_errors():
        async with client.stream(method, url, **options) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_RESPONSE:
                    raise Problem("the answer is too large")
            return httpx.Response(response.status_code, content=bytes(body))


async def open_response(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Return the response behind all redirects, its body unread. Every hop is a connection of its own to `client`."""
    for _ in range(MAX_REDIRECTS + 1):
        client.cookies.clear()
        response = await client.send(request, stream=True)
        if response.next_request is None:
            return response
        await response.aclose()
        request = response.next_request
    raise Unreachable(f"more than {MAX_REDIRECTS} redirects")


@contextmanager
def translate_errors(host: str = "") -> Iterator[None]:
    """Raise Unreachable instead of the exceptions of httpx and httpcore; the message names `host`, if given."""
    try:
        yield
    except NETWORK_ERRORS as error:
        prefix = f"{host[:100]}: " if host else ""
        raise Unreachable(f"{prefix}{describe_failure(error)}") from None


def describe_failure(error: Exception) -> str:
    """Describe a network failure for the user, without internals of this service."""
    if isinstance(error, httpcore.ConnectTimeout | httpx.ConnectTimeout):
        return "no connection within the time allowed"
    if isinstance(error, httpcore.PoolTimeout | httpx.PoolTimeout):
        return "all connections are in use"
    if isinstance(error, httpcore.TimeoutException | httpx.TimeoutException):
        return "no answer within the time allowed"
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(cause, ssl.SSLError):
        return "no secure connection"
    if isinstance(error, httpcore.ConnectError | httpx.ConnectError):
        return "no connection"
    if isinstance(error, httpcore.UnsupportedProtocol | httpx.InvalidURL | httpx.UnsupportedProtocol | idna.IDNAError):
        return "not a valid address"
    return "the connection broke off"
