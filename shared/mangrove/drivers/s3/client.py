"""Calls to an S3 server, over clients that storages with equal options share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, Unpack

from mangrove.core import deadlines, runtime
from mangrove.core.http_answers import HttpAnswer
from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.s3 import pages
from mangrove.drivers.s3.clients import CONNECTIONS, ClientKey, Clients
from mangrove.drivers.s3.errors import is_conflict, translate_errors
from mangrove.drivers.s3.operations import make_listing, make_presence_check, make_request, parse_answer
from mangrove.drivers.s3.options import S3Options, parse_endpoint
from mangrove.drivers.s3.requests import BucketMoved, Request, Requests
from mangrove.drivers.threads import StorageThreads, allow_long_wait

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
        self._copy_requests: Requests | None = None
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
        self._copy_client = self._upload_client = self._copy_requests = None
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
        for requests in (self._requests, self._copy_requests):
            if requests is not None:
                requests.close()
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
        if request is not None and (operation not in COPYING or self._key.is_of_function):
            return await self._send(request, parse_answer)
        client = await self.take_copy_client() if operation in COPYING else self.client
        return await self.run(_call_client, client, operation, {"Bucket": self.bucket, **arguments})

    async def _send(self, request: Request, parse: Callable[[str, HttpAnswer], Result]) -> Result:
        """Send a request and return its parsed answer. Follow a bucket to its region once."""
        try:
            return await self._send_once(request, parse)
        except BucketMoved as moved:
            await self._follow(moved.region)
        try:
            return await self._send_once(request, parse)
        except BucketMoved:
            raise StorageProblem("the bucket is in another region") from None

    async def _send_once(self, request: Request, parse: Callable[[str, HttpAnswer], Result]) -> Result:
        requests = await self._take_copy_requests() if request.operation in COPYING else self._requests
        assert requests is not None
        return await self.run(_send, request, requests, parse)

    async def _take_copy_requests(self) -> Requests:
        """Return the requests that wait for the last byte of a copy."""
        await self.take_copy_client()
        async with self._taking:
            if self._copy_requests is None:
                assert self._clients is not None
                key = self._key._replace(read_seconds=COPY_SECONDS)
                self._copy_requests = await self.run(self._clients.make_requests, key, self.bucket)
            return self._copy_requests

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


def _call_client(client: Any, operation: str, parameters: Mapping[str, Any]) -> Any:
    """Call an operation in the present thread, in which botocore also makes a client that is not made yet."""
    return getattr(client, operation)(**parameters)


def _send(request: Request, requests: Requests, parse: Callable[[str, HttpAnswer], Result]) -> Result:
    return parse(request.operation, requests.send(request))
