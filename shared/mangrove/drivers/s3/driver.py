"""S3: a bucket, or a prefix in one, on AWS or on anything that speaks its protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import boto3
import httpx
from botocore.config import Config as ClientConfig

from mangrove.drivers.base import BLOCK, CopyRequest, Driver, DriverConfig, DriverContext, Entry, Link, Upload
from mangrove.drivers.s3 import copy as s3copy
from mangrove.drivers.s3 import pages as s3pages
from mangrove.drivers.s3 import upload as s3upload
from mangrove.drivers.s3.errors import told
from mangrove.drivers.s3.links import at_host, disposition, without_bucket
from mangrove.drivers.s3.options import S3Options, address
from mangrove.drivers.s3.upload import Store, aborted, begun
from mangrove.paths import TreePath
from mangrove.problems import Exists, Forbidden, NotAFolder, NotFound, NotSupported, StorageProblem, Unreachable

DUMMY_KEY = "mangrovelocal"  # what the single-machine mode signs records with; it is nobody's key
PLACEHOLDER = ".mangrove"
AT_ONCE = 1000  # objects of a folder that are copied or moved without a task
COPIES = 8  # object copies in flight
THREADS = 16
SAME_SERVER = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
LONGEST_LINK = 7 * 24 * 3600  # seconds that a signature may be valid
CONNECT_SECONDS, READ_SECONDS = 3, 10
COPY_SECONDS = 600  # some servers say nothing until the last byte of a copy is written
COPYING = {"copy_object", "upload_part_copy", "complete_multipart_upload"}
Result = TypeVar("Result")


class S3(Driver):
    name = "S3"
    Options = S3Options
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: S3Options

    def __init__(self, options: S3Options, context: DriverContext) -> None:
        super().__init__(options, context)
        root = TreePath(options.root_folder_path)
        self._root = "" if root == "/" else f"{root[1:]}/"
        self._placeholder = options.placeholder or PLACEHOLDER
        self._session = boto3.session.Session()
        self._pool: ThreadPoolExecutor | None = None
        self._client: Any = None
        self._patient: Any = None
        self._public: Any = None
        self._http: httpx.AsyncClient | None = None

    async def start(self) -> None:
        options = self.options
        if not options.bucket:
            raise StorageProblem("bucket is required")
        ambient = os.environ.get("AWS_ACCESS_KEY_ID") == DUMMY_KEY
        if not (options.access_key_id and options.secret_access_key) and (options.access_key_id or ambient):
            raise StorageProblem("access_key_id and secret_access_key are required on this machine")
        self._pool = ThreadPoolExecutor(THREADS, "s3")
        with told():
            self._client = await self._threaded(partial(self._made, address(options.endpoint)))
            self._patient = await self._threaded(partial(self._made, address(options.endpoint), COPY_SECONDS))
            self._public = self._client
            if options.custom_host and options.enable_custom_host_presign:
                self._public = await self._threaded(partial(self._made, address(options.custom_host)))
        headers = {"user-agent": options.user_agent} if options.user_agent else {}
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        self._http = await self._threaded(partial(httpx.AsyncClient, timeout=timeout, headers=headers))

    def _made(self, endpoint: str | None, read_seconds: int = READ_SECONDS) -> Any:
        options = self.options
        config = ClientConfig(
            signature_version="s3v4",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"total_max_attempts": 2, "mode": "standard"},
            max_pool_connections=THREADS,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            user_agent=options.user_agent or None,
            s3={"addressing_style": "path" if options.force_path_style else "auto"},
        )
        return self._session.client(
            "s3",
            endpoint_url=endpoint,
            region_name=options.region or "us-east-1",
            aws_access_key_id=options.access_key_id or None,
            aws_secret_access_key=options.secret_access_key or None,
            aws_session_token=options.session_token or None,
            config=config,
        )

    async def stop(self) -> None:
        """What is under way goes on: the threads end with the last thing that uses the driver."""
        if self._http is not None:
            await self._http.aclose()
        for client in (self._client, self._patient, self._public):
            if client is not None:
                client.close()

    async def _threaded(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """One operation of the S3 API on the bucket, in a thread; a StorageProblem when it fails."""
        client = self._patient if operation in COPYING else self._client
        with told():
            return await self._threaded(partial(getattr(client, operation), Bucket=self.options.bucket, **arguments))

    def key(self, path: TreePath) -> str:
        """The key of a file."""
        return self._root + path[1:]

    def _prefix(self, path: TreePath) -> str:
        """What the keys of all a folder holds begin with."""
        return self._root if path == "/" else f"{self.key(path)}/"

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        prefix, known, start = self._prefix(path), path == "/", ""
        following: asyncio.Task[s3pages.Page] | None = asyncio.create_task(self._page(prefix, ""))
        try:
            while following is not None:
                page = await following
                if start and page.following == start:
                    raise Unreachable("the S3 server repeats a page of the listing")
                start = page.following
                following = asyncio.create_task(self._page(prefix, page.following)) if page.following else None
                known = known or bool(page.files or page.folders)
                found = [Entry(name, 0, self.context.modified, True) for name in page.folders]
                yield found + [entry for entry in page.files if entry.name not in ("", self._placeholder)]
        finally:
            if following is not None:
                following.cancel()
        if not known:
            if await self._is_file(path):
                raise NotAFolder
            raise NotFound

    async def _page(self, prefix: str, start: str) -> s3pages.Page:
        """One page of a listing, signed by boto3, read and parsed here: boto3's own parsing takes twice the time."""
        assert self._http is not None
        if self._http.is_closed:
            raise Unreachable("the storage was stopped meanwhile")
        v2 = self.options.list_object_version == "v2"
        wanted = {"Bucket": self.options.bucket, "Prefix": prefix, "Delimiter": "/", "EncodingType": "url"}
        if start:
            wanted["ContinuationToken" if v2 else "Marker"] = start
        sign = partial(self._client.generate_presigned_url, "list_objects_v2" if v2 else "list_objects", Params=wanted)
        with told():
            status, body = await s3pages.fetch(self._http, await self._threaded(sign))
            return await self._threaded(partial(s3pages.parse, status, body, prefix))

    async def _is_file(self, path: TreePath) -> bool:
        try:
            return not (await self.stat(path)).is_dir
        except NotFound:
            return False

    async def stat(self, path: TreePath) -> Entry:
        if path == "/":
            return Entry("", 0, self.context.modified, True)
        try:
            found = await self.call("head_object", Key=self.key(path))
        except NotFound:
            if await self._holds(path):
                return Entry(path.name, 0, self.context.modified, True)
            raise NotFound from None
        modified, etag = found["LastModified"].timestamp(), found.get("ETag", "").strip('"')
        return Entry(path.name, found["ContentLength"], modified, False, etag=etag)

    async def _holds(self, path: TreePath) -> bool:
        """Whether any key lies below a folder."""
        return bool((await self._below(path, 1)).get("Contents"))

    async def _below(self, path: TreePath, most: int = AT_ONCE) -> Any:
        """The first objects of a folder, however deep, by the call that the option names."""
        operation = "list_objects_v2" if self.options.list_object_version == "v2" else "list_objects"
        return await self.call(operation, Prefix=self._prefix(path), MaxKeys=most)

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        if length == 0:
            if (await self.stat(path)).is_dir:
                raise NotFound
            return _nothing()
        span = {}
        if offset or length is not None:
            span = {"Range": f"bytes={offset}-{'' if length is None else offset + length - 1}"}
        found = await self.call("get_object", Key=self.key(path), **span)
        if offset and not found.get("ContentRange", "").startswith(f"bytes {offset}-"):
            found["Body"].close()  # rclone answers a range with 200 and says so in ContentRange alone
            raise StorageProblem("the S3 server does not answer ranges")
        if length is not None and found["ContentLength"] != length:
            found["Body"].close()
            raise StorageProblem("the object changed while it was read")
        return self._blocks(found["Body"])

    async def _blocks(self, body: Any) -> AsyncIterator[bytes]:
        """The body in blocks, the next one fetched while one is used."""
        assert self._pool is not None
        following = self._pool.submit(body.read, BLOCK)
        try:
            while True:
                with told():
                    block = await asyncio.wrap_future(following)
                if not block:
                    return
                following = self._pool.submit(body.read, BLOCK)
                yield block
        finally:
            following.cancel()
            following.add_done_callback(lambda _: body.close())  # closing under a read waits for it, up to READ_SECONDS

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        return await Store(self.call, self.key(path), upload).store(path.name, body)

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        return await begun(self.call, self.key(path), ContentType=upload.mime)

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        await s3upload.aborted_since(self.call, self.key(path), float(key.partition("-")[0]))

    async def get_checksums(self, path: TreePath) -> Mapping[str, str]:
        return s3upload.parse_checksums(await self.call("head_object", Key=self.key(path), ChecksumMode="ENABLED"))

    async def identify(self, path: TreePath) -> set[str]:
        return {f"s3:{self.options.bucket}/{self.key(path)}"}

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        answer = await self.call("upload_part", Key=self.key(path), UploadId=token, PartNumber=number, Body=content)
        return f"{len(content)} {answer['ETag']}"

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        stored = [receipt.partition(" ") for receipt in receipts]
        size = sum(int(length) for length, _, _ in stored)
        if size != upload.size:
            raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
        parts = [{"PartNumber": number, "ETag": etag} for number, (_, _, etag) in enumerate(stored, 1)]
        await self.call(
            "complete_multipart_upload", Key=self.key(path), UploadId=token, MultipartUpload={"Parts": parts}
        )
        return await self.stat(path)

    async def abort(self, path: TreePath, token: str) -> None:
        await aborted(self.call, self.key(path), token)

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        if not isinstance(source, S3) or not self._shares(source):
            return None
        wanted = [(source.place(source.key(file.source)), self.key(file.target), file) for file in files]
        return await s3copy.copy_from(self.call, source.stat, self.stat, wanted)

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        assert isinstance(source, S3)
        place = source.place(source.key(path))
        etag = await s3copy.part(self.call, place, self.key(target), token, number, offset, length)
        return f"{length} {etag}"

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        return (s3copy.PART if isinstance(source, S3) and self._shares(source) else 0), s3copy.PARTS_AT_ONCE

    def _shares(self, other: S3) -> bool:
        """Whether the server may read the other storage's objects with our keys."""
        mine, theirs = self.options, other.options
        return all(getattr(mine, name) == getattr(theirs, name) for name in SAME_SERVER)

    def place(self, key: str) -> dict[str, str]:
        """An object, as the source of a copy."""
        return {"Bucket": self.options.bucket, "Key": key}

    async def makedirs(self, path: TreePath) -> None:
        for step in path.ancestors()[:-1]:
            if await self._is_file(step):
                raise Exists
        if path != "/":
            await self._mark(path)

    async def _mark(self, path: TreePath) -> None:
        """Keep a folder that holds nothing else."""
        await self.call("put_object", Key=self._prefix(path) + self._placeholder, Body=b"")

    async def _kept(self, folder: TreePath) -> None:
        """A folder whose last entry went away stays, as it would anywhere else."""
        if folder != "/" and not await self._holds(folder):
            await self._mark(folder)

    async def rename(self, path: TreePath, target: TreePath) -> None:
        await self.move(path, target)

    async def move(self, path: TreePath, target: TreePath) -> None:
        if path == target:
            return
        keys = await self._copy(path, target)
        await self._delete(keys)
        await self._kept(path.parent)

    async def copy(self, path: TreePath, target: TreePath) -> None:
        await self._copy(path, target)

    async def _copy(self, path: TreePath, target: TreePath) -> Sequence[str]:
        """Copy a file, or a folder of at most AT_ONCE objects; the keys that were copied."""
        if target.within(path):
            raise StorageProblem("the destination folder is a subfolder of the source folder")
        entry = await self.stat(path)
        if not entry.is_dir:
            await s3copy.copied(self.call, self.place(self.key(path)), self.key(target), entry.size)
            return [self.key(path)]
        found = await self._below(path)
        if found.get("IsTruncated"):
            raise NotSupported
        if await self._is_file(target):
            raise Exists
        turn = asyncio.Semaphore(COPIES)
        old, new = self._prefix(path), self._prefix(target)

        async def one(key: str, size: int) -> None:
            async with turn:
                await s3copy.copied(self.call, self.place(key), new + key.removeprefix(old), size)

        contents = found.get("Contents", [])
        await _all([one(item["Key"], item["Size"]) for item in contents])
        return [item["Key"] for item in contents]

    async def _delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), 1000):
            batch = [{"Key": key} for key in keys[start : start + 1000]]
            answer = await self.call("delete_objects", Delete={"Objects": batch, "Quiet": True})
            if answer.get("Errors"):
                raise StorageProblem(f"not removed: {answer['Errors'][0].get('Message', 'unknown reason')[:200]}")

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise Forbidden("delete root folder is not allowed")
        try:
            entry = await self.stat(path)
        except NotFound:
            return
        if not entry.is_dir:
            await self.call("delete_object", Key=self.key(path))
        else:
            removed: Sequence[str] = []
            while keys := [item["Key"] for item in (await self._below(path)).get("Contents", [])]:
                if keys == removed:
                    raise StorageProblem("the S3 server keeps objects that were removed")
                await self._delete(keys)
                removed = keys
        await self._kept(path.parent)

    async def remove_empty(self, path: TreePath) -> bool:
        marks = [self._prefix(path), self._prefix(path) + self._placeholder]
        found = [item["Key"] for item in (await self._below(path, len(marks) + 1)).get("Contents", [])]
        if path == "/" or not set(found) <= set(marks):
            return False
        await self._delete(found)
        await self._kept(path.parent)
        return True

    async def link(self, path: TreePath) -> Link:
        options = self.options
        hours = options.sign_url_expire if options.sign_url_expire > 0 else 4
        seconds = min(hours * 3600, LONGEST_LINK)
        wanted = {
            "Bucket": options.bucket,
            "Key": self.key(path),
            "ResponseContentDisposition": disposition(path.name if options.add_filename_to_disposition else ""),
        }
        sign = partial(self._public.generate_presigned_url, "get_object", Params=wanted, ExpiresIn=seconds)
        with told():
            url = await self._threaded(sign)
        if options.custom_host:
            url = without_bucket(url, options.bucket) if options.remove_bucket else url
            url = at_host(url, address(options.custom_host) or "", options.enable_custom_host_presign)
        return Link(url, lifetime=seconds)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""  # makes this a generator


async def _all(works: Sequence[Any]) -> None:
    """Wait for all; the first failure, after the others have ended."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
