"""S3: a bucket, or a prefix in one, on AWS or on any server of its protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import boto3
import httpx

from mangrove.drivers.base import BLOCK, CopyRequest, Driver, DriverConfig, DriverContext, Entry, Link, Upload
from mangrove.drivers.s3 import copy, pages
from mangrove.drivers.s3.clients import CONNECT_SECONDS, READ_SECONDS, THREADS, make_client
from mangrove.drivers.s3.errors import translate_errors
from mangrove.drivers.s3.links import remove_bucket, replace_host
from mangrove.drivers.s3.options import S3Options, parse_endpoint
from mangrove.drivers.s3.upload import StreamingUpload, abort_upload, begin_upload, parse_checksums
from mangrove.headers import format_content_disposition
from mangrove.paths import TreePath
from mangrove.problems import Exists, Forbidden, NotAFolder, NotFound, NotSupported, StorageProblem, Unreachable
from mangrove.streams import stream

DUMMY_KEY = "mangrovelocal"  # the access key of the records engine on one machine; no key of any S3 server
PLACEHOLDER = ".mangrove"
AT_ONCE = 1000  # objects of a folder that are copied or moved without a task
COPIES = 8  # object copies in flight
SAME_SERVER = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
LONGEST_LINK = 7 * 24 * 3600  # seconds that a signature may be valid
COPY_SECONDS = 600  # some servers answer only when the last byte of a copy is written
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
        self.client: Any = None
        self.copy_client: Any = None  # waits longer for an answer
        self._link_client: Any = None  # signs links
        self._http: httpx.AsyncClient | None = None

    async def start(self) -> None:
        options = self.options
        if not options.bucket:
            raise StorageProblem("bucket is required")
        ambient = os.environ.get("AWS_ACCESS_KEY_ID") == DUMMY_KEY
        if not (options.access_key_id and options.secret_access_key) and (options.access_key_id or ambient):
            raise StorageProblem("access_key_id and secret_access_key are required on this machine")
        self._pool = ThreadPoolExecutor(THREADS, "s3")
        make = partial(make_client, self._session, options)
        endpoint = parse_endpoint(options.endpoint)
        with translate_errors():
            self.client = await self._run_in_thread(partial(make, endpoint))
            self.copy_client = await self._run_in_thread(partial(make, endpoint, COPY_SECONDS))
            self._link_client = self.client
            if options.custom_host and options.enable_custom_host_presign:
                self._link_client = await self._run_in_thread(partial(make, parse_endpoint(options.custom_host)))
        headers = {"user-agent": options.user_agent} if options.user_agent else {}
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        self._http = await self._run_in_thread(partial(httpx.AsyncClient, timeout=timeout, headers=headers))

    async def stop(self) -> None:
        """Calls in flight go on: the threads end with the last reference to the driver."""
        if self._http is not None:
            await self._http.aclose()
        for client in (self.client, self.copy_client, self._link_client):
            if client is not None:
                client.close()

    async def _run_in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """One operation of the S3 API on the bucket, in a thread; a StorageProblem when it fails."""
        method = getattr(self.copy_client if operation in COPYING else self.client, operation)
        with translate_errors():
            return await self._run_in_thread(partial(method, Bucket=self.options.bucket, **arguments))

    def get_key(self, path: TreePath) -> str:
        """The key of a file."""
        return self._root + path[1:]

    def _prefix(self, path: TreePath) -> str:
        """What the keys of all a folder holds begin with."""
        return self._root if path == "/" else f"{self.get_key(path)}/"

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        prefix, exists, start = self._prefix(path), path == "/", ""
        following: asyncio.Task[pages.Page] | None = asyncio.create_task(self._page(prefix, ""))
        try:
            while following is not None:
                page = await following
                if start and page.next_start == start:
                    raise Unreachable("the S3 server repeats a page of the listing")
                start = page.next_start
                following = asyncio.create_task(self._page(prefix, page.next_start)) if page.next_start else None
                exists = exists or bool(page.files or page.folders)
                found = [Entry(name, 0, self.context.modified, True) for name in page.folders]
                yield found + [entry for entry in page.files if entry.name not in ("", self._placeholder)]
        finally:
            if following is not None:
                following.cancel()
        if not exists:
            if await self._is_file(path):
                raise NotAFolder
            raise NotFound

    async def _page(self, prefix: str, start: str) -> pages.Page:
        """One page of a listing, signed by boto3, read and parsed here: boto3's own parsing takes twice the time."""
        assert self._http is not None
        if self._http.is_closed:
            raise Unreachable("the storage was stopped meanwhile")
        v2 = self.options.list_object_version == "v2"
        query = {"Bucket": self.options.bucket, "Prefix": prefix, "Delimiter": "/", "EncodingType": "url"}
        if start:
            query["ContinuationToken" if v2 else "Marker"] = start
        sign = partial(self.client.generate_presigned_url, "list_objects_v2" if v2 else "list_objects", Params=query)
        with translate_errors():
            status, body = await pages.fetch(self._http, await self._run_in_thread(sign))
            return await self._run_in_thread(partial(pages.parse, status, body, prefix))

    async def _is_file(self, path: TreePath) -> bool:
        try:
            return not (await self.stat(path)).is_dir
        except NotFound:
            return False

    async def stat(self, path: TreePath) -> Entry:
        if path == "/":
            return Entry("", 0, self.context.modified, True)
        try:
            found = await self.call("head_object", Key=self.get_key(path))
        except NotFound:
            if await self._has_objects(path):
                return Entry(path.name, 0, self.context.modified, True)
            raise NotFound from None
        modified, etag = found["LastModified"].timestamp(), found.get("ETag", "").strip('"')
        return Entry(path.name, found["ContentLength"], modified, False, etag=etag)

    async def _has_objects(self, path: TreePath) -> bool:
        """Whether any key lies below a folder."""
        return bool((await self._list_below(path, 1)).get("Contents"))

    async def _list_below(self, path: TreePath, most: int = AT_ONCE) -> Any:
        """The first objects of a folder, however deep, by the call that the option names."""
        operation = "list_objects_v2" if self.options.list_object_version == "v2" else "list_objects"
        return await self.call(operation, Prefix=self._prefix(path), MaxKeys=most)

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        if length == 0:
            if (await self.stat(path)).is_dir:
                raise NotFound
            return stream(b"")
        span = {}
        if offset or length is not None:
            span = {"Range": f"bytes={offset}-{'' if length is None else offset + length - 1}"}
        found = await self.call("get_object", Key=self.get_key(path), **span)
        if offset and not found.get("ContentRange", "").startswith(f"bytes {offset}-"):
            found["Body"].close()  # rclone answers a range with 200 and says so in ContentRange alone
            raise StorageProblem("the S3 server does not answer ranges")
        if length is not None and found["ContentLength"] != length:
            found["Body"].close()
            raise StorageProblem("the object changed while it was read")
        return self._read_blocks(found["Body"])

    async def _read_blocks(self, body: Any) -> AsyncIterator[bytes]:
        """The body in blocks; the next one is fetched while one is used."""
        assert self._pool is not None
        following = self._pool.submit(body.read, BLOCK)
        try:
            while True:
                with translate_errors():
                    block = await asyncio.wrap_future(following)
                if not block:
                    return
                following = self._pool.submit(body.read, BLOCK)
                yield block
        finally:
            following.cancel()
            following.add_done_callback(lambda _: body.close())  # closing under a read waits for it, up to READ_SECONDS

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        return await StreamingUpload(self.call, self.get_key(path), upload).run(path.name, body)

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        return await begin_upload(self.call, self.get_key(path), upload.mime)

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        """Aborts nothing: no server shows which of the uploads to a key belongs to which attempt.

        A multipart upload has no name of the caller's: it is listed with its key, id, time and storage class only. What
        a process leaves that ends between CreateMultipartUpload and recording the id holds no part, so that nothing
        is stored for it, and the bucket's lifecycle rule removes it.
        """

    async def get_checksums(self, path: TreePath) -> Mapping[str, str]:
        return parse_checksums(await self.call("head_object", Key=self.get_key(path), ChecksumMode="ENABLED"))

    async def identify(self, path: TreePath) -> set[str]:
        return {f"s3:{self.options.bucket}/{self.get_key(path)}"}

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        answer = await self.call("upload_part", Key=self.get_key(path), UploadId=token, PartNumber=number, Body=content)
        return f"{len(content)} {answer['ETag']}"

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        stored = [receipt.partition(" ") for receipt in receipts]
        size = sum(int(length) for length, _, _ in stored)
        if size != upload.size:
            raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
        parts = [{"PartNumber": number, "ETag": etag} for number, (_, _, etag) in enumerate(stored, 1)]
        await self.call(
            "complete_multipart_upload", Key=self.get_key(path), UploadId=token, MultipartUpload={"Parts": parts}
        )
        return await self.stat(path)

    async def abort(self, path: TreePath, token: str) -> None:
        await abort_upload(self.call, self.get_key(path), token)

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        if not isinstance(source, S3) or not self._can_copy_from(source):
            return None
        sources = [source.make_copy_source(source.get_key(file.source)) for file in files]
        requests = [(one, self.get_key(file.target), file) for one, file in zip(sources, files, strict=True)]
        return await copy.copy_from(self.call, source.stat, self.stat, requests)

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        assert isinstance(source, S3)
        copy_source = source.make_copy_source(source.get_key(path))
        etag = await copy.copy_part(self.call, copy_source, self.get_key(target), token, number, offset, length)
        return f"{length} {etag}"

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        return (copy.PART if isinstance(source, S3) and self._can_copy_from(source) else 0), copy.PARTS_AT_ONCE

    def _can_copy_from(self, other: S3) -> bool:
        """Whether the server can read the other storage's objects with the keys of this one."""
        mine, theirs = self.options, other.options
        return all(getattr(mine, name) == getattr(theirs, name) for name in SAME_SERVER)

    def make_copy_source(self, key: str) -> dict[str, str]:
        """An object as `CopySource`."""
        return {"Bucket": self.options.bucket, "Key": key}

    async def makedirs(self, path: TreePath) -> None:
        for step in path.ancestors()[:-1]:
            if await self._is_file(step):
                raise Exists
        if path != "/":
            await self._put_placeholder(path)

    async def _put_placeholder(self, path: TreePath) -> None:
        """Make a folder exist that holds nothing else."""
        await self.call("put_object", Key=self._prefix(path) + self._placeholder, Body=b"")

    async def _keep_folder(self, folder: TreePath) -> None:
        """Keep a folder whose last entry was removed, as other storages do."""
        if folder != "/" and not await self._has_objects(folder):
            await self._put_placeholder(folder)

    async def rename(self, path: TreePath, target: TreePath) -> None:
        await self.move(path, target)

    async def move(self, path: TreePath, target: TreePath) -> None:
        if path == target:
            return
        keys = await self._copy(path, target)
        await self._delete(keys)
        await self._keep_folder(path.parent)

    async def copy(self, path: TreePath, target: TreePath) -> None:
        await self._copy(path, target)

    async def _copy(self, path: TreePath, target: TreePath) -> Sequence[str]:
        """Copy a file, or a folder of at most AT_ONCE objects; the keys that were copied."""
        if target.within(path):
            raise StorageProblem("the destination folder is a subfolder of the source folder")
        entry, key = await self.stat(path), self.get_key(path)
        if not entry.is_dir:
            await copy.copy_object(self.call, self.make_copy_source(key), self.get_key(target), entry.size)
            return [key]
        found = await self._list_below(path)
        if found.get("IsTruncated"):
            raise NotSupported
        if await self._is_file(target):
            raise Exists
        limit = asyncio.Semaphore(COPIES)
        old, new = self._prefix(path), self._prefix(target)

        async def copy_one(key: str, size: int) -> None:
            async with limit:
                await copy.copy_object(self.call, self.make_copy_source(key), new + key.removeprefix(old), size)

        contents = found.get("Contents", [])
        await _gather([copy_one(item["Key"], item["Size"]) for item in contents])
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
            await self.call("delete_object", Key=self.get_key(path))
        else:
            removed: Sequence[str] = []
            while keys := [item["Key"] for item in (await self._list_below(path)).get("Contents", [])]:
                if keys == removed:
                    raise StorageProblem("the S3 server keeps objects that were removed")
                await self._delete(keys)
                removed = keys
        await self._keep_folder(path.parent)

    async def remove_empty(self, path: TreePath) -> bool:
        markers = [self._prefix(path), self._prefix(path) + self._placeholder]
        found = [item["Key"] for item in (await self._list_below(path, len(markers) + 1)).get("Contents", [])]
        if path == "/" or not set(found) <= set(markers):
            return False
        await self._delete(found)
        await self._keep_folder(path.parent)
        return True

    async def link(self, path: TreePath) -> Link:
        options = self.options
        hours = options.sign_url_expire if options.sign_url_expire > 0 else 4
        seconds = min(hours * 3600, LONGEST_LINK)
        name = path.name if options.add_filename_to_disposition else ""
        query = {
            "Bucket": options.bucket,
            "Key": self.get_key(path),
            "ResponseContentDisposition": format_content_disposition(name),
        }
        sign = partial(self._link_client.generate_presigned_url, "get_object", Params=query, ExpiresIn=seconds)
        with translate_errors():
            url = await self._run_in_thread(sign)
        if options.custom_host:
            url = remove_bucket(url, options.bucket) if options.remove_bucket else url
            url = replace_host(url, parse_endpoint(options.custom_host) or "", options.enable_custom_host_presign)
        return Link(url, lifetime=seconds)


async def _gather(works: Sequence[Any]) -> None:
    """Wait for all; the first failure, after the others have ended."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
