"""Requests to the server of a storage: signed, redirected within limits, answered in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from urllib.parse import unquote

import httpcore
import httpx

from mangrove.core.problems import NotAFile, StorageProblem, Unreachable
from mangrove.drivers.webdav.auth import WebDavCredentials
from mangrove.drivers.webdav.errors import make_problem, translate_errors
from mangrove.drivers.webdav.resources import MultistatusParser, RemoteResource
from mangrove.net.addresses import AddressPolicy
from mangrove.net.client import NETWORK_ERRORS, make_client

CONNECT_TIMEOUT_SECONDS = 5.0
ANSWER_TIMEOUT_SECONDS = 10.0  # for the start of an answer, and between two pieces of it
LISTING_TIMEOUT_SECONDS = 30.0  # for the start of a listing, which some servers complete before they answer
PROBE_DELAY_SECONDS = 5.0  # without an answer to a listing, before the server is probed
PROBE_TIMEOUT_SECONDS = 4.0  # for the answer; after a failed probe, calls fail immediately for as long
CHANGE_TIMEOUT_SECONDS = 300.0  # for a change of all files of a folder
MAX_LISTING_SECONDS = 600.0  # for a whole listing
STORE_TIMEOUT_SECONDS = 60.0  # for the answer to a complete body
SEND_TIMEOUT_SECONDS = 20.0  # for each piece of a body
CONNECTION_WAIT_SECONDS = 20.0  # for a free connection
IDLE_TIMEOUT_SECONDS = 300.0  # of an unused connection
MAX_CALL_CONNECTIONS, MAX_BODY_CONNECTIONS = 16, 100  # separate, so that slow downloads do not delay listings
MAX_REDIRECTS = 5
MAX_DRAINED_BYTES = 64 << 10  # of an answer, read to keep the connection
_REDIRECTS = (301, 302, 303, 307, 308)
_REDIRECTED = ("PROPFIND", "GET")
_CONNECTION_LOST = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)
_NOT_REPEATED = ("MOVE", "COPY")  # a second attempt could find the result of the first
Content = bytes | AsyncIterator[bytes] | None

_PROPFIND = '<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>{}</D:prop></D:propfind>'
ENTRY_PROPERTIES = _PROPFIND.format("<D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:getetag/>").encode()
QUOTA_PROPERTIES = _PROPFIND.format("<D:quota-available-bytes/><D:quota-used-bytes/>").encode()


class WebDavClient:
    """The client of the server of a storage.

    It is used from one event loop at a time. Connections of an earlier loop, as of a function, are forgotten.
    """

    def __init__(self, address: httpx.URL, credentials: WebDavCredentials, *, verify: bool) -> None:
        self._address = address
        self._policy = AddressPolicy.for_host(address.raw_host.decode("ascii"))
        self._credentials = credentials
        self._verify = verify
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._probe: asyncio.Task[None] | None = None
        self._silent_until = 0.0  # on the clock of the loop

    @property
    def can_sign(self) -> bool:
        """True if requests can be signed so that the server accepts the first one."""
        return self._credentials.is_method_known

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()

    def _get_client(self, is_body: bool) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._clients, self._probe, self._silent_until = loop, {}, None, 0.0
        if is_body not in self._clients:
            limit = MAX_BODY_CONNECTIONS if is_body else MAX_CALL_CONNECTIONS
            self._clients[is_body] = make_client(
                self._policy, verify=self._verify, connections=limit, idle=IDLE_TIMEOUT_SECONDS
            )
        return self._clients[is_body]

    async def open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        content: Content = None,
        seconds: float = 0.0,
        *,
        follow: bool = True,
    ) -> httpx.Response:
        """Return the answer with its body unread; the caller closes it.

        Redirects of PROPFIND and GET are followed. `content` that is an iterator is sent once, and a 401 is returned.
        Raise NotAFile for GET on a folder.
        """
        target = httpx.URL(url)
        for _ in range(MAX_REDIRECTS + 1):
            with translate_errors():
                response = await self._send_signed(
                    method, target, headers or {}, content, seconds or ANSWER_TIMEOUT_SECONDS
                )
            location = response.headers.get("location", "")
            if not (follow and location and method in _REDIRECTED and response.status_code in _REDIRECTS):
                return response
            await drain(response)
            following = join(target, location)
            if method == "GET" and following.path == f"{target.path}/":
                raise NotAFile
            target = following
        raise Unreachable(f"the WebDAV server redirects more than {MAX_REDIRECTS} times")

    async def _send_signed(
        self, method: str, target: httpx.URL, headers: Mapping[str, str], content: Content, seconds: float
    ) -> httpx.Response:
        is_ours, is_again = self._is_ours(target), False
        while True:
            signature = self._credentials.sign(method, target.raw_path.decode("ascii")) if is_ours else b""
            signed = {name.encode(): value.encode() for name, value in headers.items()}
            if signature:
                signed[b"authorization"] = signature
            response = await self._send(method, target, signed, content, seconds)
            if response.status_code != 401 or not is_ours:
                return response
            challenges = response.headers.get_list("www-authenticate")
            can_repeat = self._credentials.learn(challenges, signature, is_again)
            if not can_repeat or not _is_repeatable(content):
                return response
            await drain(response)
            is_again = True

    def _is_ours(self, target: httpx.URL) -> bool:
        """True if an address is the server's own; requests to others are not signed."""
        address = self._address
        if target.host != address.host:
            return False
        is_same = (target.scheme, target.port) == (address.scheme, address.port)
        return is_same or (address.scheme, target.scheme) == ("http", "https")

    async def _send(
        self, method: str, target: httpx.URL, headers: Mapping[bytes, bytes], content: Content, seconds: float
    ) -> httpx.Response:
        client = self._get_client(method == "GET" or not _is_repeatable(content))
        client.cookies.clear()
        timeout = httpx.Timeout(
            seconds, connect=CONNECT_TIMEOUT_SECONDS, write=SEND_TIMEOUT_SECONDS, pool=CONNECTION_WAIT_SECONDS
        )
        request = client.build_request(method, target, headers=headers, content=content, timeout=timeout)
        if not _is_repeatable(content):
            return await client.send(request, stream=True)
        async with asyncio.timeout(CONNECTION_WAIT_SECONDS + CONNECT_TIMEOUT_SECONDS + seconds):
            try:
                return await client.send(request, stream=True)
            except _CONNECTION_LOST:
                if method in _NOT_REPEATED:
                    raise
            return await client.send(request, stream=True)  # the server may have closed an idle connection

    async def change(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: Content = None
    ) -> int:
        """Send a request that changes something and return its status.

        Raise StorageProblem for a multistatus that reports a failure.
        """
        seconds = STORE_TIMEOUT_SECONDS if method == "PUT" else CHANGE_TIMEOUT_SECONDS
        response = await self.open(method, url, headers, content, seconds)
        if response.status_code != 207:
            await drain(response)
            return response.status_code
        async with aclosing(read_resources(response)) as batches:
            async for resources in batches:
                for resource in resources:
                    if resource.status >= 400:
                        raise make_problem(resource.status, unquote(resource.href).rstrip("/").rpartition("/")[2])
        return 207

    async def find(
        self, url: str, depth: int, properties: bytes = ENTRY_PROPERTIES
    ) -> AsyncGenerator[list[RemoteResource]]:
        """Yield the resources of a PROPFIND as they arrive; a refusal is one resource without an address."""
        headers = {"depth": str(depth), "content-type": "application/xml; charset=utf-8"}
        response = await (self._open_listing if depth else self.open)("PROPFIND", url, headers, properties)
        status = response.status_code
        if status == 207:
            async with aclosing(read_resources(response)) as batches:
                async for resources in batches:
                    yield resources
            return
        await drain(response)
        if status < 400 or status in (405, 501):
            raise StorageProblem("the server does not speak WebDAV at this address")
        yield [RemoteResource("", status)]

    async def _open_listing(
        self, method: str, url: str, headers: Mapping[str, str], properties: bytes
    ) -> httpx.Response:
        """Open a listing, which may take as long as the server answers probes."""
        if self._loop is asyncio.get_running_loop() and self._loop.time() < self._silent_until:
            raise Unreachable("the WebDAV server does not answer")
        opening = asyncio.ensure_future(self.open(method, url, headers, properties, LISTING_TIMEOUT_SECONDS))
        try:
            done, _ = await asyncio.wait([opening], timeout=PROBE_DELAY_SECONDS)
            if not done:
                await self._require_answer()
            return await opening
        except BaseException:
            opening.cancel()
            with suppress(asyncio.CancelledError, StorageProblem):
                await (await opening).aclose()
            raise

    async def _require_answer(self) -> None:
        """Raise Unreachable unless the server answers a probe, which concurrent callers share."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._send_probe())
            self._probe.add_done_callback(lambda probe: probe.cancelled() or probe.exception())
        await asyncio.shield(self._probe)

    async def _send_probe(self) -> None:
        request = httpx.Request(
            "OPTIONS", self._address, extensions={"timeout": httpx.Timeout(PROBE_TIMEOUT_SECONDS).as_dict()}
        )
        try:
            with translate_errors():
                async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                    response = await self._get_client(is_body=True).send(request, stream=True)
        except (TimeoutError, Unreachable):
            self._silent_until = asyncio.get_running_loop().time() + PROBE_TIMEOUT_SECONDS
            raise Unreachable("the WebDAV server does not answer") from None
        await drain(response)


def _is_repeatable(content: Content) -> bool:
    return content is None or isinstance(content, bytes)


def join(base: httpx.URL, location: str) -> httpx.URL:
    """Return the target address of a redirect. Raise StorageProblem for an invalid one."""
    try:
        target = base.join(location)
    except (httpx.InvalidURL, ValueError):
        target = httpx.URL()
    if target.scheme not in ("http", "https") or not target.host:
        raise StorageProblem("the WebDAV server redirects to an invalid address")
    return target


async def drain(response: httpx.Response) -> None:
    """Close an answer whose body is not needed; after a short one the connection can be used again."""
    size = 0
    with suppress(*NETWORK_ERRORS, TimeoutError):
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > MAX_DRAINED_BYTES:
                    break
    await response.aclose()


async def read_resources(response: httpx.Response) -> AsyncGenerator[list[RemoteResource]]:
    """Yield the resources of a multistatus as they arrive; close the answer at the end."""
    parser, waited, clock = MultistatusParser(), 0.0, asyncio.get_running_loop().time
    try:
        pieces = response.aiter_raw()
        while True:
            began = clock()
            with translate_errors():
                piece = await anext(pieces, None)
            waited += clock() - began
            if waited > MAX_LISTING_SECONDS:
                raise Unreachable("the WebDAV server takes too long for a listing")
            if piece is None:
                parser.finish()
            else:
                parser.feed(piece)
            if resources := parser.take():
                yield resources
            if piece is None:
                return
            await asyncio.sleep(0)
    finally:
        await response.aclose()
