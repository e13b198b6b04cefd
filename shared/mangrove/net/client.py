"""Outgoing HTTP: a client that checks every connection it makes, and its failures as problems.

The address is checked when it is connected to. So redirects, and names that resolve differently the second time, are
covered by the one check.
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

from mangrove import runtime
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress, resolve_host
from mangrove.problems import Problem, Unreachable

CONNECT_TIMEOUT = 10.0  # seconds, with the resolving of the name
READ_TIMEOUT = 60.0  # seconds between two pieces of a response
MAX_RESPONSE = 16 << 20  # bytes that `request` reads
NETWORK_ERRORS = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


class TlsContext:
    """The trusted certificates of this process; loading them takes some milliseconds."""

    def __init__(self) -> None:
        self.context = httpx.create_ssl_context()


class _GuardedBackend(httpcore.AsyncNetworkBackend):
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
    """An httpx transport whose every connection is checked. It uses no proxy and raises httpcore's exceptions."""

    def __init__(self, policy: AddressPolicy) -> None:
        context = runtime.get(TlsContext).context
        self._pool = httpcore.AsyncConnectionPool(ssl_context=context, network_backend=_GuardedBackend(policy))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        response = await self._pool.handle_async_request(
            httpcore.Request(
                request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
            )
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def make_client(policy: AddressPolicy) -> httpx.AsyncClient:
    """A client whose every connection is checked, that follows no redirect and reads nothing from the environment.

    Only the trusted certificates may come from SSL_CERT_FILE.
    """
    timeout = httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "Mangrove"}
    return httpx.AsyncClient(transport=GuardedTransport(policy), timeout=timeout, trust_env=False, headers=headers)


async def request(client: httpx.AsyncClient, method: str, url: str, **options: Any) -> httpx.Response:
    """Status and body of a small response, whatever its status; Problem when it is larger than MAX_RESPONSE.

    Unreachable with the reason alone as its message.
    """
    with translate_errors():
        async with client.stream(method, url, **options) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_RESPONSE:
                    raise Problem("the answer is too large")
            return httpx.Response(response.status_code, content=bytes(body))


@contextmanager
def translate_errors(host: str = "") -> Iterator[None]:
    """Unreachable instead of the exceptions of httpx and httpcore; the message names `host`, if given."""
    try:
        yield
    except NETWORK_ERRORS as error:
        prefix = f"{host[:100]}: " if host else ""
        raise Unreachable(f"{prefix}{describe_failure(error)}") from None


def describe_failure(error: Exception) -> str:
    """A network failure in words for the user, without internals of this service."""
    if isinstance(error, httpcore.ConnectTimeout | httpx.ConnectTimeout):
        return "no connection within the time allowed"
    if isinstance(error, httpcore.TimeoutException | httpx.TimeoutException):
        return "no answer within the time allowed"
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(cause, ssl.SSLError):
        return "no secure connection"
    if isinstance(error, httpcore.ConnectError | httpx.ConnectError):
        return "no connection"
    if isinstance(error, httpcore.UnsupportedProtocol | httpx.InvalidURL | httpx.UnsupportedProtocol):
        return "not an address that can be asked"
    return "the connection broke off"
