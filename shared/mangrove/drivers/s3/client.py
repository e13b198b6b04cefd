"""Calls to an S3 server, over clients that storages with equal options share."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, TypeVarTuple, Unpack

from botocore.exceptions import NoCredentialsError

from mangrove.core import aws, aws_calls, deadlines, runtime
from mangrove.core.aws import AwsSession
from mangrove.core.http_connections import HttpConnections
from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.core.signatures import Credentials, Signer
from mangrove.drivers.s3 import pages
from mangrove.drivers.s3.errors import is_conflict, translate_errors
from mangrove.drivers.s3.operations import make_listing, make_presence_check, make_request, parse_answer
from mangrove.drivers.s3.options import S3Options, parse_endpoint
from mangrove.drivers.s3.requests import BucketMoved, Request, Requests, S3Answer, find_address, find_usual_address
from mangrove.drivers.threads import StorageThreads, allow_long_wait

CONNECTIONS = 32  # of one client that are kept open
CONNECT_SECONDS, READ_SECONDS = 3, 8
ANY_KEY = "-"  # of an object whose address shows that of the bucket


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

    @property
    def is_of_function(self) -> bool:
        """True if the client has the rights of this function, whose environment needs no botocore to read."""
        is_own = self.endpoint is None and not self.access_key_id and not self.force_path_style
        return is_own and platform().has_cold_starts and aws_calls.is_supported()

    @classmethod
    def of(cls, options: S3Options, endpoint: str | None, read_seconds: int = READ_SECONDS) -> ClientKey:
        """Return the key of a storage's client at `endpoint`."""
        return cls(
            endpoint, options.region or "us-east-1", options.access_key_id, options.secret_access_key,
            options.session_token, options.force_path_style, options.user_agent, read_seconds,
        )  # fmt: skip


class LazyClient:
    """A client of botocore that is made at its first use. That takes long, and most cold starts need none."""

    def __init__(self, make_client: Callable[[], Any]) -> None:
        self._make_client = make_client
        self._lock = threading.Lock()
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
        return getattr(self._client, name)

    def close(self) -> None:
        """Close the connections of the client, if it was made."""
        if self._client is not None:
            self._client.close()


class _Shared:
    """A client, the trusted roots of its connections if it has made any, and the number of its users."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.context: ssl.SSLContext | None = None
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
                make_client = partial(_make_client, self._session, key)
                client = LazyClient(make_client) if key.is_of_function else make_client()
                shared = self._shared[key] = _Shared(client)
            shared.users += 1
            return shared.client

    def make_requests(self, key: ClientKey, bucket: str) -> Requests:
        """Return the requests to a bucket that need no botocore, for a key that was taken."""
        with self._lock:
            shared, session = self._shared[key], self._session
            assert session is not None
            address = find_usual_address(key.region, bucket) if key.is_of_function else None
            is_usual = address is not None
            if address is None:
                parameters = {"Bucket": bucket, "Key": ANY_KEY}
                address = find_address(shared.client.generate_presigned_url("head_object", Params=parameters), ANY_KEY)
            if address.scheme == "https" and shared.context is None:
                roots = aws.find_roots() if is_usual else session.find_certificates(key.region, key.endpoint)
                shared.context = ssl.create_default_context(cafile=roots)
            connections = HttpConnections(address, shared.context, CONNECT_SECONDS, key.read_seconds)
            return Requests(address, Signer("s3", key.region, _get_provider(session, key)), connections, key.user_agent)

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


def _get_provider(session: AwsSession, key: ClientKey) -> Callable[[], Credentials]:
    """Return the function that gives the credentials of a client: its own, or those of the process."""
    if key.access_key_id:
        credentials = Credentials(key.access_key_id, key.secret_access_key, key.session_token)
        return lambda: credentials
    if key.is_of_function:
        return aws_calls.read_credentials
    provider = session.get_credentials()

    def get_renewed() -> Credentials:
        if provider is None:
            raise NoCredentialsError
        frozen = provider.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")

    return get_renewed


def _make_client(session: AwsSession, key: ClientKey) -> Any:
    from botocore.config import Config as ClientConfig

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


COPY_SECONDS = 600  # some servers answer only when the last byte of a copy is written
COPYING = {"copy_object", "upload_part_copy", "complete_multipart_upload"}
GLOBAL_ENDPOINT = "https://s3.amazonaws.com"  # of AWS
PROBE_PAUSE = 1.0  # seconds between two probes of a server that hung
CONFLICT_PAUSES = (0.1, 0.4, 1.6, 0.0)  # seconds before another attempt after a conflicting request; 0.0: no more
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class S3Client:
    """Calls operations in threads, and raises a StorageProblem for a failure. `name`: of the storage, in the log."""

    def __init__(self, options: S3Options, name: str) -> None:
        self._options = options
        self.bucket = options.bucket
        self._threads = StorageThreads(name, self._wait_for_answer, CONNECTIONS)
        self._stopped = threading.Event()
        self._clients: Clients | None = None
        self._keys: list[ClientKey] = []
        self._key = ClientKey.of(options, parse_endpoint(options.endpoint))
        self.client: Any = None
        self._copy_client: Any = None  # waits longer for an answer
        self.link_client: Any = None  # signs links
        self._upload_client: Any = None  # signs uploads
        self._requests: Requests | None = None
        self._taking = asyncio.Lock()

    async def start(self) -> None:
        options = self._options
        try:
            with translate_errors():
                await self._use(self._key)
                self.link_client = self.client
                if options.custom_host and options.enable_custom_host_presign:
                    self.link_client = await self._take(ClientKey.of(options, parse_endpoint(options.custom_host)))
        except StorageProblem:
            await self.stop()
            raise

    async def _use(self, key: ClientKey) -> None:
        """Send all requests by the client for `key`."""
        self.client, self._key = await self._take(key), key
        self._copy_client = self._upload_client = None
        assert self._clients is not None
        previous, self._requests = self._requests, await self.run(self._clients.make_requests, key, self.bucket)
        if previous is not None:
            previous.close()

    async def _follow(self, region: str) -> None:
        """Use the region in which the bucket is. Raise StorageProblem if the server does not name another one."""
        async with self._taking:
            key = self._key._replace(region=region)
            if not region or key in self._keys:
                raise StorageProblem("the bucket is in another region")
            await self._use(key)

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
                with translate_errors():
                    self._copy_client = await self._take(self._key._replace(read_seconds=COPY_SECONDS))
        return self._copy_client

    async def take_upload_client(self) -> Any:
        """Return the client that signs uploads, for the host to which browsers can send.

        On AWS it is that of the region: another host may answer with a redirect, which no browser follows to another
        origin.
        """
        options = self._options
        async with self._taking:
            if self._upload_client is None:
                endpoint = parse_endpoint(options.direct_upload_host or "") or await self.run(self._find_endpoint)
                if endpoint == GLOBAL_ENDPOINT:
                    endpoint = f"https://s3.{self._key.region}.amazonaws.com"
                with translate_errors():
                    self._upload_client = await self._take(self._key._replace(endpoint=endpoint))
        return self._upload_client

    def _find_endpoint(self) -> str:
        return str(self.client.meta.endpoint_url)

    async def sign_link(self, key: str, disposition: str, version_id: str, seconds: int) -> str:
        """Return the signed address of an object, at the host for links."""
        assert self._requests is not None
        if self.link_client is self.client:
            query = {"response-content-disposition": disposition} | ({"versionId": version_id} if version_id else {})
            return await self.run(self._requests.sign_link, key, query, seconds)
        parameters = {"Bucket": self.bucket, "Key": key, "ResponseContentDisposition": disposition}
        parameters |= {"VersionId": version_id} if version_id else {}
        sign = partial(self.link_client.generate_presigned_url, "get_object", Params=parameters, ExpiresIn=seconds)
        return str(await self.run(sign))

    async def stop(self) -> None:
        """Close the clients. Calls in progress continue and may call again; the threads end when they are idle."""
        self._stopped.set()
        if self._requests is not None:
            self._requests.close()
        while self._keys and self._clients is not None:
            self._clients.release(self._keys.pop())

    async def run(self, work: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        """Run `work` in a thread of this storage.

        Its client limits the time for an answer, unless the server does not answer at all; see `threads`.
        """
        return await self._threads.run(_run_patiently, partial(work, *args))

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
        for pause in CONFLICT_PAUSES:
            try:
                with translate_errors():
                    return await self._call(operation, arguments)
            except StorageProblem as problem:
                # the caller has to start a conditional completion again
                if not pause or operation == "complete_multipart_upload" or not is_conflict(problem):
                    raise
            deadlines.check(pause)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        assert self._requests is not None
        request = make_request(operation, arguments, self._requests.is_encrypted)
        if request is not None:
            return await self._send(request, parse_answer)
        client = await self.take_copy_client() if operation in COPYING else self.client
        parameters = {"Bucket": self.bucket, **arguments}
        return await self.run(lambda: getattr(client, operation)(**parameters))

    async def _send(self, request: Request, parse: Callable[[str, S3Answer], Result]) -> Result:
        """Send a request and return its parsed answer. Follow a bucket to its region once."""
        try:
            return await self.run(self._send_here, request, parse)
        except BucketMoved as moved:
            await self._follow(moved.region)
        try:
            return await self.run(self._send_here, request, parse)
        except BucketMoved:
            raise StorageProblem("the bucket is in another region") from None

    def _send_here(self, request: Request, parse: Callable[[str, S3Answer], Result]) -> Result:
        assert self._requests is not None
        return parse(request.operation, self._requests.send(request))

    async def list_page(
        self, prefix: str, start: str, names: str = "", *, after: str = "", most: int = 0
    ) -> pages.Page:
        """Return one page of a listing. It is parsed here: botocore's own parsing takes twice the time.

        `names`: the prefix of names behind `prefix`; `after`: only keys after it; `most`: their maximum number, 0 for
        the server's page size.
        """
        if self._stopped.is_set():
            raise Unreachable("the storage was stopped meanwhile")
        is_second_version = self._options.list_object_version == "v2"
        request = make_listing(prefix, names, start, after, most, is_second_version)
        with translate_errors():
            return await self._send(request, lambda _, answer: pages.parse(pages.read_body(answer), prefix))

    async def has_keys(self, prefix: str) -> bool:
        """Return True if any key has a prefix."""
        request = make_presence_check(prefix, self._options.list_object_version == "v2")
        with translate_errors():
            return await self._send(request, lambda _, answer: pages.has_objects(pages.read_body(answer)))


def _run_patiently(work: Callable[[], Result]) -> Result:
    with allow_long_wait():
        return work()
