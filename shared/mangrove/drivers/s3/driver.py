"""S3: a bucket, or a prefix in one, on AWS or on any server of its protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from mangrove.core import deadlines
from mangrove.core.chunked import stream
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath, is_trash_name, is_valid_name
from mangrove.core.platform import platform
from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import (
    Capabilities,
    CopyRequest,
    Driver,
    DriverContext,
    DriverProperties,
    EntriesPage,
    Entry,
    Link,
    SignedRequest,
    StoredPart,
    Upload,
)
from mangrove.drivers.refusals import refuse_existing, refuse_inside_itself, refuse_root_removal
from mangrove.drivers.s3 import copy, direct, pages
from mangrove.drivers.s3.checksums import parse_checksums
from mangrove.drivers.s3.client import S3Client
from mangrove.drivers.s3.conditions import ConditionSupport
from mangrove.drivers.s3.links import find_signer, make_link
from mangrove.drivers.s3.objects import Objects, StreamingUpload, UploadedPart, join_etags, make_entry
from mangrove.drivers.s3.options import S3Options
from mangrove.drivers.s3.reading import open_object
from mangrove.drivers.s3.versions import VersionedBucket

DUMMY_KEY = "mangrovelocal"  # the access key of the standalone records engine; no key of any S3 server
PLACEHOLDER = ".mangrove"
MAX_OBJECTS_WITHOUT_TASK = 1000  # objects of a folder that are copied or moved without a task
SERVER_OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")


class S3(VersionedBucket):
    name = "S3"
    Options = S3Options
    config = DriverProperties(default_root="/", check_status=True, direct_lookup=True)
    capabilities = Capabilities(
        write=True, parts=True, direct_uploads=True, makedirs=True, rename=True, move=True, copy=True, copy_from=True,
        remove=True, remove_unchanged=True, remove_empty=True, link=True, list_page=True, list_range=True,
        versions=True, identify=True, get_checksums=True,
    )  # fmt: skip
    options: S3Options

    def __init__(self, options: S3Options, context: DriverContext) -> None:
        super().__init__(options, context)
        root = TreePath(options.root_folder_path)
        self._root = "" if root == "/" else f"{root[1:]}/"
        self._placeholder = options.placeholder or PLACEHOLDER
        self.call = S3Client(options, f"s3 {context.mount_path}")
        self._conditions = ConditionSupport(self.call, options, self._root)
        self._objects = Objects(self.call, self._conditions)
        self._edge_signer = find_signer(options)

    async def start(self) -> None:
        options = self.options
        if not options.bucket:
            raise StorageProblem("bucket is required")
        ambient = os.environ.get("AWS_ACCESS_KEY_ID") == DUMMY_KEY
        if not (options.access_key_id and options.secret_access_key) and (options.access_key_id or ambient):
            raise StorageProblem("access_key_id and secret_access_key are required on this machine")
        await self.call.start()

    async def stop(self) -> None:
        """Stop. Calls in progress continue: the threads end with the last reference to the driver."""
        await self.call.stop()

    @property
    def client(self) -> Any:
        """boto3's client. Storages with equal options share it."""
        return self.call.client

    async def can_refuse_existing(self) -> bool:
        return (await self._conditions.ask()).puts

    async def proves_writes(self) -> bool:
        return self._objects.integrity.proven

    def _make_key(self, path: TreePath) -> str:
        """Return the key of a file to store, or of its folder.

        Raise StorageForbidden if listings would leave it out.
        """
        for name in path[1:].split("/"):
            if not is_valid_name(name) or name == self._placeholder:
                raise StorageForbidden(f"the name {name!r} cannot be used in this storage")
        return self.get_key(path)

    def _prefix(self, path: TreePath) -> str:
        """Return the prefix of the keys in a folder."""
        return self._root if path == "/" else f"{self.get_key(path)}/"

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        start = ""
        following: asyncio.Task[EntriesPage] | None = asyncio.create_task(self.list_page(path))
        try:
            while following is not None:
                page = await following
                start = page.next_start
                following = asyncio.create_task(self.list_page(path, start)) if start else None
                yield page.entries
        finally:
            if following is not None:
                following.cancel()

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        page = await self.call.list_page(self._prefix(path), start, prefix)
        if start and page.next_start == start:
            raise Unreachable("the S3 server repeats a page of the listing")
        is_empty = not (start or prefix or page.files or page.folders or page.next_start)
        if is_empty and path != "/":
            raise NotAFolder if await self._is_file(path) else EntryNotFound
        return self._make_page(page)

    async def list_range(self, path: TreePath, after: str, most: int) -> EntriesPage:
        prefix = self._prefix(path)
        return self._make_page(await self.call.list_page(prefix, "", after=after and prefix + after, most=most))

    def _make_page(self, page: pages.Page) -> EntriesPage:
        folders = [name for name in page.folders if not is_trash_name(name)]
        entries = [Entry(name, 0, self.context.modified, True) for name in folders]
        entries += [entry for entry in page.files if entry.name not in ("", self._placeholder)]
        return EntriesPage(entries, page.next_start)

    async def _is_file(self, path: TreePath) -> bool:
        try:
            return not (await self.stat(path)).is_dir
        except EntryNotFound:
            return False

    async def stat(self, path: TreePath) -> Entry:
        if path == "/":
            return Entry("", 0, self.context.modified, True)
        try:
            head = await self.call("head_object", Key=self.get_key(path))
        except EntryNotFound:
            if await self._has_objects(path):
                return Entry(path.name, 0, self.context.modified, True)
            raise EntryNotFound from None
        return make_entry(path.name, head)

    async def _has_objects(self, path: TreePath) -> bool:
        """True if any key is below a folder."""
        has_keys: bool = await self.call.has_keys(self._prefix(path))
        return has_keys

    async def _list_below(self, path: TreePath, most: int = 0) -> Any:
        """Return the first objects of a folder, at any depth, by the call that the option names."""
        operation = "list_objects_v2" if self.options.list_object_version == "v2" else "list_objects"
        return await self.call(operation, Prefix=self._prefix(path), MaxKeys=most or MAX_OBJECTS_WITHOUT_TASK)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        if length == 0:
            if (await self.stat(path)).is_dir:
                raise EntryNotFound
            return stream(b"")
        body = await open_object(self.call, self.get_key(path), offset, length, if_match)
        return body.read_blocks()

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        key = self._make_key(path)
        if not (upload.overwrite or upload.is_free):
            await refuse_existing(self.stat, path)
        return await StreamingUpload(self._objects, key, upload).run(path.name, body)

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        target = self._make_key(path)
        if not upload.overwrite:
            await refuse_existing(self.stat, path)
        return await self._objects.begin(target, ContentType=upload.mime)

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        """Abort nothing: no server shows which of the uploads to a key belongs to which attempt.

        A multipart upload has no name of the caller's: it is listed with its key, id, time and storage class only. A
        process that ends between CreateMultipartUpload and recording the id leaves an upload without parts, so that
        nothing is stored for it, and the bucket's lifecycle rule removes it.
        """

    async def get_checksums(self, path: TreePath) -> Mapping[str, str]:
        return parse_checksums(await self.call("head_object", Key=self.get_key(path), ChecksumMode="ENABLED"))

    async def identify(self, path: TreePath) -> set[str]:
        return {f"s3:{self.options.bucket}/{self.get_key(path)}"}

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        return (await self._objects.put_part(self.get_key(path), token, number, content)).format_receipt()

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        parts = list(map(UploadedPart.parse_receipt, receipts))
        size = sum(part.length for part in parts)
        if size != upload.size:
            raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
        if not upload.overwrite:
            await refuse_existing(self.stat, path)
        await self._objects.complete(self.get_key(path), token, parts, upload.overwrite)
        return await self.stat(path)

    async def abort(self, path: TreePath, token: str) -> None:
        await self._objects.abort(self.get_key(path), token)

    @property
    def offers_direct_uploads(self) -> bool:
        """True if the option says so, and for the buckets of the deployment, for which the process has a role."""
        is_own = not self.options.access_key_id and platform().has_aws_role
        return self.options.enable_direct_upload or is_own

    async def sign_upload(self, path: TreePath, upload: Upload) -> SignedRequest:
        key = self._make_key(path)
        if not upload.overwrite:
            await refuse_existing(self.stat, path)
        return await direct.sign_upload(self._objects, key, upload)

    async def sign_part(self, path: TreePath, token: str, number: int, size: int, crc32: str) -> SignedRequest:
        return await direct.sign_part(self._objects, self.get_key(path), token, number, size, crc32)

    async def list_parts(self, path: TreePath, token: str) -> Sequence[StoredPart]:
        return await direct.list_parts(self._objects, self.get_key(path), token)

    def predict_etag(self, receipts: Sequence[str]) -> str:
        return join_etags(list(map(UploadedPart.parse_receipt, receipts)))

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        source = source.unwrap()
        if not isinstance(source, S3) or not self._can_copy_from(source):
            return None
        sources = [source.make_copy_source(source.get_key(file.source)) for file in files]
        requests = [
            (copy_source, self.get_key(file.target), file) for copy_source, file in zip(sources, files, strict=True)
        ]
        return await copy.copy_from(self._objects, source, self, requests)

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        """Store a part. The receipt names the version of the file: `finish` refuses parts of two versions."""
        source = source.unwrap()
        if not isinstance(source, S3):
            raise NotSupported
        entry, copy_source = await source.stat(path), source.make_copy_source(source.get_key(path))
        key = self.get_key(target)
        part = await copy.copy_part(self._objects, copy_source, entry.etag, key, token, number, offset, length)
        return part.format_receipt()

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        source = source.unwrap()
        return (copy.PART if isinstance(source, S3) and self._can_copy_from(source) else 0), copy.PART_COPY_CONCURRENCY

    def _can_copy_from(self, other: S3) -> bool:
        """True if the server can read the other storage's objects with the keys of this one."""
        options, theirs = self.options, other.options
        return all(getattr(options, name) == getattr(theirs, name) for name in SERVER_OPTIONS)

    async def makedirs(self, path: TreePath) -> None:
        for step in path.ancestors()[:-1]:
            if await self._is_file(step):
                raise EntryExists
        if path != "/":
            self._make_key(path)
            await self._put_placeholder(path)

    async def _put_placeholder(self, path: TreePath) -> None:
        """Make a folder exist that has no other content."""
        await self.call("put_object", Key=self._prefix(path) + self._placeholder, Body=b"")

    async def _keep_folder(self, folder: TreePath) -> None:
        """Keep a folder whose last entry was removed, as other storages do."""
        if folder != "/" and not await self._has_objects(folder):
            await self._put_placeholder(folder)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Move an entry. If the source changes during the copy, keep it and raise EntryChanged."""
        if path == target:
            return
        if overwrite:
            await refuse_existing(self.stat, target, but_files=True)
        copied = await self._copy(path, target, overwrite)

        async def remove_source(key: str, entry: Entry) -> None:
            try:
                await self._objects.remove_unchanged(key, entry)
            except EntryChanged as problem:
                raise problem.with_prefix(key.removeprefix(self._root)) from None

        try:
            await gather_bounded([partial(remove_source, *item) for item in copied.items()], copy.COPY_CONCURRENCY)
        finally:
            await self._keep_folder(path.parent)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        await self._copy(path, target, overwrite)

    async def _copy(self, path: TreePath, target: TreePath, overwrite: bool) -> Mapping[str, Entry]:
        """Copy a file, or a folder of at most MAX_OBJECTS_WITHOUT_TASK objects. Return the copied objects by key."""
        refuse_inside_itself(path, target)
        new_key = self._make_key(target)
        entry, key = await self.stat(path), self.get_key(path)
        if not overwrite:
            await refuse_existing(self.stat, target)
        if not entry.is_dir:
            await copy.copy_object(self._objects, self.make_copy_source(key), entry, new_key, overwrite)
            return {key: entry}
        listed = await self._list_below(path)
        entries = {item["Key"]: make_entry("", item | {"ContentLength": item["Size"]}) for item in listed["Contents"]}
        if listed.get("IsTruncated") or any((entry.size or 0) > copy.MAX_COPY_BYTES for entry in entries.values()):
            raise NotSupported
        if await self._is_file(target):
            raise EntryExists
        old, new = self._prefix(path), self._prefix(target)
        await copy.copy_folder(self._objects, entries, old, new, self._placeholder, overwrite)
        return entries

    async def _delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), 1000):
            batch = [{"Key": key} for key in keys[start : start + 1000]]
            answer = await self.call("delete_objects", Delete={"Objects": batch, "Quiet": True})
            if answer.get("Errors"):
                raise StorageProblem(f"not removed: {answer['Errors'][0].get('Message', 'unknown reason')[:200]}")

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        await self._objects.remove_unchanged(self.get_key(path), entry)
        await self._keep_folder(path.parent)

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        try:
            entry = await self.stat(path)
        except EntryNotFound:
            return
        if not entry.is_dir:
            await self.call("delete_object", Key=self.get_key(path))
        else:
            await self._remove_below(path)
        await self._keep_folder(path.parent)

    async def _remove_below(self, path: TreePath) -> None:
        """Remove all objects of a folder. Raise OutOfTime between two thousands of them."""
        removed: Sequence[str] = []
        while keys := [item["Key"] for item in (await self._list_below(path)).get("Contents", [])]:
            if keys == removed:
                raise StorageProblem("the S3 server keeps objects that were removed")
            await self._delete(keys)
            removed = keys
            deadlines.check()

    async def remove_empty(self, path: TreePath) -> bool:
        markers = [self._prefix(path), self._prefix(path) + self._placeholder]
        keys = [item["Key"] for item in (await self._list_below(path, len(markers) + 1)).get("Contents", [])]
        if path == "/" or not set(keys) <= set(markers) or (not keys and await self._is_file(path)):
            return False
        await self._delete(keys)
        await self._keep_folder(path.parent)
        return True

    async def link(self, path: TreePath) -> Link:
        key = self.get_key(path)
        return await make_link(self.call, self._edge_signer, self.options, key, path.name, self.version_id)
