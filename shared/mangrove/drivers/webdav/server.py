"""Requests to the server of one storage: signed, redirected within bounds, answered in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from urllib.parse import unquote

import httpcore
import httpx

from mangrove.core.problems import NotAFile, StorageProblem, Unreachable
from mangrove.drivers.webdav.auth import Credentials
from mangrove.drivers.webdav.errors import make_problem, translate_errors
from mangrove.drivers.webdav.multistatus import MultistatusParser, Resource
from mangrove.net.addresses import AddressPolicy
from mangrove.net.client import NETWORK_ERRORS, make_client

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0  # until an answer begins, and between two pieces of it
LIST_SECONDS = 30.0  # the same for a folder, which some servers list to its end before they answer
SIGN_AFTER_SECONDS = 5.0  # without an answer to a listing, after which the server is asked for a sign of life
SIGN_SECONDS = 4.0  # that the sign may take; calls fail at once for as long after there was none
CHANGE_SECONDS = 300.0  # the same for what the server does to all that a folder holds
ALL_SECONDS = 600.0  # that an answer may take its time in all
WRITE_ANSWER_SECONDS = 60.0  # until a server answers that has a whole body
WRITE_SECONDS = 20.0  # in which the server takes nothing of a body
WAIT_SECONDS = 20.0  # for a free connection
IDLE_SECONDS = 300.0  # after which a connection that nobody uses is closed
CALLS, BODIES = 16, 100  # connections at once: apart, so that slow downloads keep nobody from listing
MOST_REDIRECTS = 5
MOST_DRAINED = 64 << 10  # bytes of an answer that are read for the sake of the connection
_REDIRECTS = (301, 302, 303, 307, 308)
_REDIRECTED = ("PROPFIND", "GET")
_DROPPED = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)
_ONCE = ("MOVE", "COPY")  # whose second try could find that the first one was done
Content = bytes | AsyncIterator[bytes] | None

_ASK = '<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>{}</D:prop></D:propfind>'
ENTRY = _ASK.format("<D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:getetag/>").encode()
QUOTA = _ASK.format("<D:quota-available-bytes/><D:quota-used-bytes/>").encode()


class Server:
    """The server that the options name. Used from one event loop at a time; what belongs to an earlier one, as a
    function in the cloud may have had, is forgotten."""

    def __init__(self, address: httpx.URL, credentials: Credentials, *, verify: bool) -> None:
        self._address = address
        self._policy = AddressPolicy.for_host(address.raw_host.decode("ascii"))
        self._credentials = credentials
        self._verify = verify
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._asking: asyncio.Task[None] | None = None
        self._silent_until = 0.0  # on the clock of the loop

    @property
    def may_sign(self) -> bool:
        """Whether it is known how to sign a request, so that the first one is accepted."""
        return self._credentials.is_known

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()

    def _get_client(self, is_body: bool) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._clients, self._asking, self._silent_until = loop, {}, None, 0.0
        if is_body not in self._clients:
            most = BODIES if is_body else CALLS
            client = make_client(self._policy, verify=self._verify, connections=most, idle=IDLE_SECONDS)
            self._clients[is_body] = client
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
        """The answer, its body unread; the caller closes it. Redirects of what only reads are followed.

        `content` that is an iterator is sent once: then 401 is answered as it is. NotAFile for GET on a folder.
        """
        target = httpx.URL(url)
        for _ in range(MOST_REDIRECTS + 1):
            with translate_errors():
                response = await self._send_signed(method, target, headers or {}, content, seconds or ANSWER_SECONDS)
            location = response.headers.get("location", "")
            if not (follow and location and method in _REDIRECTED and response.status_code in _REDIRECTS):
                return response
            await drain(response)
            following = join(target, location)
            if method == "GET" and following.path == f"{target.path}/":
                raise NotAFile
            target = following
        raise Unreachable(f"the WebDAV server redirects more than {MOST_REDIRECTS} times")

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
            asked = response.headers.get_list("www-authenticate")
            may_again = self._credentials.learn(asked, signature, is_again)
            if not may_again or not _is_repeatable(content):
                return response
            await drain(response)
            is_again = True

    def _is_ours(self, target: httpx.URL) -> bool:
        """Whether an address is the server's own, which alone may see that the password is known."""
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
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS, write=WRITE_SECONDS, pool=WAIT_SECONDS)
        request = client.build_request(method, target, headers=headers, content=content, timeout=timeout)
        if not _is_repeatable(content):
            return await client.send(request, stream=True)
        async with asyncio.timeout(WAIT_SECONDS + CONNECT_SECONDS + seconds):
            try:
                return await client.send(request, stream=True)
            except _DROPPED:
                if method in _ONCE:
                    raise
            return await client.send(request, stream=True)  # the server may have closed an idle connection

    async def change(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: Content = None
    ) -> int:
        """The status of an answer to what changes something, whatever it is; StorageProblem for one that says what
        failed inside."""
        seconds = WRITE_ANSWER_SECONDS if method == "PUT" else CHANGE_SECONDS
        response = await self.open(method, url, headers, content, seconds)
        if response.status_code != 207:
            await drain(response)
            return response.status_code
        async with aclosing(read_resources(response)) as found:
            async for resources in found:
                for one in resources:
                    if one.status >= 400:
                        raise make_problem(one.status, unquote(one.href).rstrip("/").rpartition("/")[2])
        return 207

    async def find(self, url: str, depth: int, asked: bytes = ENTRY) -> AsyncGenerator[list[Resource]]:
        """What PROPFIND answers, as it arrives; a refusal is one entry without address."""
        headers = {"depth": str(depth), "content-type": "application/xml; charset=utf-8"}
        response = await (self._open_listing if depth else self.open)("PROPFIND", url, headers, asked)
        status = response.status_code
        if status == 207:
            async with aclosing(read_resources(response)) as resources:
                async for found in resources:
                    yield found
            return
        await drain(response)
        if status < 400 or status in (405, 501):
            raise StorageProblem("the server does not speak WebDAV at this address")
        yield [Resource("", status)]

    async def _open_listing(self, method: str, url: str, headers: Mapping[str, str], asked: bytes) -> httpx.Response:
        """As `open`, for an answer that may take long: only as long as the server answers anything at all."""
        if self._loop is asyncio.get_running_loop() and self._loop.time() < self._silent_until:
            raise Unreachable("the WebDAV server does not answer")
        opening = asyncio.ensure_future(self.open(method, url, headers, asked, LIST_SECONDS))
        try:
            done, _ = await asyncio.wait([opening], timeout=SIGN_AFTER_SECONDS)
            if not done:
                await self._require_sign()
            return await opening
        except BaseException:
            opening.cancel()
            with suppress(asyncio.CancelledError, StorageProblem):
                await (await opening).aclose()
            raise

    async def _require_sign(self) -> None:
        """Unreachable unless the server answers a small question, one for all who wait for its answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_for_sign())
            self._asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        await asyncio.shield(self._asking)

    async def _ask_for_sign(self) -> None:
        request = httpx.Request("OPTIONS", self._address, extensions={"timeout": httpx.Timeout(SIGN_SECONDS).as_dict()})
        try:
            with translate_errors():
                async with asyncio.timeout(SIGN_SECONDS):
                    response = await self._get_client(is_body=True).send(request, stream=True)
        except (TimeoutError, Unreachable):
            self._silent_until = asyncio.get_running_loop().time() + SIGN_SECONDS
            raise Unreachable("the WebDAV server does not answer") from None
        await drain(response)


def _is_repeatable(content: Content) -> bool:
    return content is None or isinstance(content, bytes)


def join(base: httpx.URL, location: str) -> httpx.URL:
    """The address that a redirect names; StorageProblem when it is none."""
    try:
        found = base.join(location)
    except (httpx.InvalidURL, ValueError):
        raise StorageProblem("the WebDAV server redirects to what is no address") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise StorageProblem("the WebDAV server redirects to what is no address")
    return found


async def drain(response: httpx.Response) -> None:
    """End an answer whose body does not matter; a short one leaves the connection fit for use."""
    size = 0
    with suppress(*NETWORK_ERRORS, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > MOST_DRAINED:
                    break
    await response.aclose()


async def read_resources(response: httpx.Response) -> AsyncGenerator[list[Resource]]:
    """The entries of a multistatus as they arrive; the answer is closed at the end."""
    parser, waited, clock = MultistatusParser(), 0.0, asyncio.get_running_loop().time
    try:
        pieces = response.aiter_raw()
        while True:
            began = clock()
            with translate_errors():
                piece = await anext(pieces, None)
            waited += clock() - began
            if waited > ALL_SECONDS:
                raise Unreachable("the WebDAV server takes too long for a listing")
            if piece is None:
                parser.finish()
            else:
                parser.feed(piece)
            if found := parser.take():
                yield found
            if piece is None:
                return
            await asyncio.sleep(0)
    finally:
        await response.aclose()
