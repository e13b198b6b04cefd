"""Calls to an S3 server, over clients that storages with equal options share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from botocore.config import Config as ClientConfig

from mangrove.core import deadlines, runtime
from mangrove.core.aws import AwsSession
from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.s3 import pages
from mangrove.drivers.s3.errors import is_conflict, translate_errors
from mangrove.drivers.s3.options import S3Options, parse_endpoint
from mangrove.drivers.threads import StorageThreads, allow_long_wait

CONNECTIONS = 32  # of one client that are kept open
CONNECT_SECONDS, READ_SECONDS = 3, 8


class ClientKey(NamedTuple):
    """The parameters of a client.

    `endpoint` None: AWS itself; `read_seconds`: time limit for an answer.
    """

    endpoint: str | None
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str
    force_path_style: bool
    user_agent: str
    read_seconds: int

    @classmethod
    def of(cls, options: S3Options, endpoint: str | None, read_seconds: int = READ_SECONDS) -> ClientKey:
        """Return the key of a storage's client at `endpoint`."""
        return cls(
            endpoint, options.region or "us-east-1", options.access_key_id, options.secret_access_key,
            options.session_token, options.force_path_style, options.user_agent, read_seconds,
        )  # fmt: skip


class _Shared:
    """A client, and the number of its users."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.users = 0


class Clients:
    """The clients of this process and the one session that made them, as long as a storage uses them.

    A session needs 15 MB (the description of the API), a client of it 0.3 MB. A function has no time to make a session,
    and uses that of the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a session makes clients in one thread at a time
        self._session: AwsSession | None = None
        self._shared: dict[ClientKey, _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    def take(self, key: ClientKey) -> Any:
        """Return the client for `key`; `release` returns it. It may take tens of milliseconds."""
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                if self._session is None:
                    self._session = runtime.get(AwsSession) if platform().has_aws_role else AwsSession()
                shared = self._shared[key] = _Shared(_make_client(self._session, key))
            shared.users += 1
            return shared.client

    def release(self, key: ClientKey) -> None:
        """End one `take`. Calls in progress continue; the last user closes the idle connections."""
        with self._lock:
            shared = self._shared[key]
            shared.users -= 1
            if not shared.users:
                del self._shared[key]
                shared.client.close()
            if not self._shared:
                self._session = None

    def close(self) -> None:
        with self._lock:
            for shared in self._shared.values():
                shared.client.close()


def _make_client(session: AwsSession, key: ClientKey) -> Any:
    options = ClientConfig(
        signature_version="s3v4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=key.read_seconds,
        retries={"total_max_attempts": 2, "mode": "standard"},
        max_pool_connections=CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent=key.user_agent or None,
        s3={"addressing_style": "path" if key.force_path_style else "auto"},
    )
    return session.create_client(
        "s3",
        key.region,
        endpoint_url=key.endpoint,
        aws_access_key_id=key.access_key_id or None,
        aws_secret_access_key=key.secret_access_key or None,
        aws_session_token=key.session_token or None,
        config=options,
    )


if TYPE_CHECKING:
    import httpx

COPY_SECONDS = 600  # some servers answer only when the last byte of a copy is written
COPYING = {"copy_object", "upload_part_copy", "complete_multipart_upload"}
GLOBAL_ENDPOINT = "https://s3.amazonaws.com"  # of AWS
READING = ("get_object", "head_object")
PROBE_PAUSE = 1.0  # seconds between two probes of a server that hung
CONFLICT_PAUSES = (0.1, 0.4, 1.6, 0.0)  # seconds before another attempt after a conflicting request; 0.0: no more
Result = TypeVar("Result")


class Api:
    """Calls operations in threads, and raises a StorageProblem for a failure. `name`: of the storage, in the log."""

    def __init__(self, options: S3Options, name: str) -> None:
        self._options = options
        self.bucket = options.bucket
        self._threads = StorageThreads(name, self._wait_for_answer, CONNECTIONS)
        self._stopped = threading.Event()
        self._clients: Clients | None = None
        self._keys: list[ClientKey] = []
        self.client: Any = None
        self._copy_client: Any = None  # waits longer for an answer
        self.link_client: Any = None  # signs links
        self._upload_client: Any = None  # signs uploads
        self._taking = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._http: httpx.AsyncClient | None = None

    async def start(self) -> None:
        options, endpoint = self._options, parse_endpoint(self._options.endpoint)
        try:
            with translate_errors():
                self.client = await self._take(ClientKey.of(options, endpoint))
                self.link_client = self.client
                if options.custom_host and options.enable_custom_host_presign:
                    self.link_client = await self._take(ClientKey.of(options, parse_endpoint(options.custom_host)))
        except StorageProblem:
            await self.stop()
            raise

    async def _take(self, key: ClientKey) -> Any:
        clients = self._clients = self._clients or runtime.get(Clients)
        client = await self.run(partial(clients.take, key))
        self._keys.append(key)
        return client

    async def take_copy_client(self) -> Any:
        """Return the client for requests that the server answers only after copying the last byte.

        Most functions copy nothing, and making it takes tens of milliseconds.
        """
        async with self._taking:
            if self._copy_client is None:
                endpoint = parse_endpoint(self._options.endpoint)
                with translate_errors():
                    self._copy_client = await self._take(ClientKey.of(self._options, endpoint, COPY_SECONDS))
        return self._copy_client

    async def take_upload_client(self) -> Any:
        """Return the client that signs uploads, for the host to which browsers can send.

        On AWS it is that of the region: another host may answer with a redirect, which no browser follows to another
        origin.
        """
        options = self._options
        async with self._taking:
            if self._upload_client is None:
                endpoint = parse_endpoint(options.direct_upload_host or "") or self.client.meta.endpoint_url
                if endpoint == GLOBAL_ENDPOINT:
                    endpoint = f"https://s3.{options.region or 'us-east-1'}.amazonaws.com"
                with translate_errors():
                    self._upload_client = await self._take(ClientKey.of(options, endpoint))
        return self._upload_client

    async def stop(self) -> None:
        """Close the clients. Calls in progress continue and may call again; the threads end when they are idle."""
        self._stopped.set()
        async with self._opening:
            if self._http is not None:
                await self._http.aclose()
        while self._keys and self._clients is not None:
            self._clients.release(self._keys.pop())

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` in a thread of this storage.

        Its client limits the time for an answer, unless the server does not answer at all; see `threads`.
        """
        return await self._threads.run(_run_patiently, work)

    def run_later(self, work: Callable[[], object]) -> None:
        """Run `work` in a thread, even if no caller waits."""
        self._threads.run_later(work)

    def _wait_for_answer(self) -> None:
        """Return when the server answers anything at all."""
        while not self._stopped.is_set() and self.client is not None:
            try:
                with translate_errors():
                    self.client.head_bucket(Bucket=self.bucket)
                return
            except Unreachable:
                self._stopped.wait(PROBE_PAUSE)

    async def __call__(self, operation: str, **arguments: Any) -> Any:
        """Call one operation, on the storage's bucket unless another is named."""
        client = await self.take_copy_client() if operation in COPYING else self.client
        method = getattr(client, operation)
        work = partial(method, **{"Bucket": self.bucket, **arguments})
        for pause in CONFLICT_PAUSES:
            try:
                with translate_errors():
                    return await self.run(work)
            except AttributeError as error:
                # raised by botocore if an error 500 comes with a checksum of its body; it repeats other errors 500
                if not pause or operation not in READING:
                    raise Unreachable("the S3 server answers with an error of its own") from error
            except StorageProblem as problem:
                # the caller has to start a conditional completion again
                if not pause or operation == "complete_multipart_upload" or not is_conflict(problem):
                    raise
            deadlines.check(pause)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _open_http(self, url: str) -> httpx.AsyncClient:
        """Return the client that fetches listings, opened at the first one: most processes in the cloud list
        nothing.
        """
        async with self._opening:
            if self._stopped.is_set():
                raise Unreachable("the storage was stopped meanwhile")
            if self._http is None:
                self._http = await self.run(partial(self._make_http, url))
        return self._http

    def _make_http(self, url: str) -> httpx.AsyncClient:
        """Sign the request. It takes longer than a turn of the event loop may."""
        import httpx

        from mangrove.net.client import TlsContext

        user_agent = self._options.user_agent
        return httpx.AsyncClient(
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            headers={"user-agent": user_agent} if user_agent else {},
            verify=runtime.get(TlsContext).context if url.startswith("https:") else False,
        )

    async def list_page(
        self, prefix: str, start: str, names: str = "", *, after: str = "", most: int = 0
    ) -> pages.Page:
        """Fetch one page of a listing, signed by boto3, read and parsed here: boto3's own parsing takes twice the time.

        `names`: the prefix of names behind `prefix`; `after`: only keys after it; `most`: their maximum number, 0 for
        the server's page size.
        """
        v2 = self._options.list_object_version == "v2"
        query: dict[str, str | int] = {"Bucket": self.bucket, "Prefix": prefix + names}
        query |= {"Delimiter": "/", "EncodingType": "url"}
        if start:
            query["ContinuationToken" if v2 else "Marker"] = start
        if after:
            query["StartAfter" if v2 else "Marker"] = after
        if most:
            query["MaxKeys"] = most
        sign = partial(self.client.generate_presigned_url, "list_objects_v2" if v2 else "list_objects", Params=query)
        with translate_errors():
            url = await self.run(sign)
            status, body = await pages.fetch(await self._open_http(url), url)
            return await self.run(partial(pages.parse, status, body, prefix))


def _run_patiently(work: Callable[[], Result]) -> Result:
    with allow_long_wait():
        return work()
