"""Copies that the S3 server makes itself: the bytes do not pass through this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from mangrove.core.concurrency import finish_despite_cancel, gather_bounded
from mangrove.core.problems import EntryChanged, EntryExists, NotSupported, StorageProblem
from mangrove.drivers.base import CopyRequest, Driver, Entry
from mangrove.drivers.s3.conditions import ABSENT
from mangrove.drivers.s3.objects import Objects, UploadedPart, get_etag, is_same, make_entry
from mangrove.drivers.taken import find_taken

MAX_COPY_BYTES = 5 << 30  # bytes that CopyObject accepts; more is copied part by part
PART = 512 << 20  # bytes in transit
PART_COPY_CONCURRENCY = 3
COPY_CONCURRENCY = 8  # concurrent objects
DESCRIPTION = (
    "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType", "Metadata",
)  # fmt: skip

CHANGED = "the source changed since the task began"

CopySource = Mapping[str, str]  # bucket and key of an object, as boto3 takes them


async def copy_object(objects: Objects, source: CopySource, entry: Entry, target: str, overwrite: bool) -> str:
    """Copy the object that `entry` shows, and return the ETag of the copy.

    Raise EntryChanged if it was replaced, as far as the server checks that; EntryExists if the copy must not replace an
    object and the server decides that; NotSupported for an object that has to be copied in parts, which needs a task.
    """
    if entry.size is None or entry.size > MAX_COPY_BYTES:
        raise NotSupported
    refusals = await objects.conditions.ask() if not overwrite else None
    if refusals is not None and refusals.puts and not refusals.copies:
        return await _copy_by_upload(objects, source, entry, target)
    condition = _match(entry.etag) | (ABSENT if refusals is not None and refusals.copies else {})
    try:
        answer = await objects.api("copy_object", Key=target, CopySource=source, **condition)
    except EntryChanged:
        if not overwrite and await objects.find(target) is not None:
            raise EntryExists from None
        raise
    except NotSupported:
        if refusals is None or not refusals.copies:
            raise
        objects.conditions.forget_copies()
        return await _copy_by_upload(objects, source, entry, target)
    objects.integrity.note_copy()
    return get_etag(answer["CopyObjectResult"])


async def _copy_by_upload(objects: Objects, source: CopySource, entry: Entry, target: str) -> str:
    """Copy as `copy_object`, never replacing, on a server that decides that for uploads only."""
    head = await objects.api("head_object", **source)
    if not is_same(entry, make_entry("", head)):
        raise EntryChanged
    described = {name: head[name] for name in DESCRIPTION if head.get(name)}
    if not entry.size:
        return await objects.put(target, b"", overwrite=False, **described)
    upload_id = await objects.begin(target, **described)
    try:
        part = await _copy_range(objects, source, entry.etag, target, upload_id, 1, 0, entry.size)
        etag = await objects.complete(target, upload_id, [part], overwrite=False)
    except BaseException:
        await finish_despite_cancel(objects.abort(target, upload_id))
        raise
    objects.integrity.note_copy()
    return etag


async def copy_part(
    objects: Objects, source: CopySource, etag: str, target: str, upload_id: str, number: int, offset: int, length: int
) -> UploadedPart:
    """Copy a range of the object with this ETag as a part of an upload.

    Raise EntryChanged if it has another ETag now, also if the server does not check that.
    """
    part = await _copy_range(objects, source, etag, target, upload_id, number, offset, length)
    if get_etag(await objects.api("head_object", **source)) != etag:
        raise EntryChanged
    objects.integrity.note_copy()
    return part


async def _copy_range(
    objects: Objects, source: CopySource, etag: str, target: str, upload_id: str, number: int, offset: int, length: int
) -> UploadedPart:
    answer = await objects.api(
        "upload_part_copy", Key=target, UploadId=upload_id, PartNumber=number, CopySource=source,
        CopySourceRange=f"bytes={offset}-{offset + length - 1}", **_match(etag),
    )  # fmt: skip
    result = answer["CopyPartResult"]
    return UploadedPart(length, str(result["ETag"]), str(result.get("ChecksumCRC32", "")), etag)


def _match(etag: str) -> dict[str, str]:
    return {"CopySourceIfMatch": f'"{etag}"'} if etag else {}


async def copy_from(
    objects: Objects,
    source_driver: Driver,
    target_driver: Driver,
    files: Sequence[tuple[CopySource, str, CopyRequest]],
) -> Sequence[StorageProblem | None]:
    """Copy small objects of another bucket. Return the problem of each, or None.

    There is one call per object, if the server checks its version; one listing shows which of many would be replaced.
    """
    decides_version = (await objects.conditions.ask()).versions
    taken = await find_taken(target_driver, [file.target for _, _, file in files if not file.overwrite])

    async def copy_one(source: CopySource, key: str, file: CopyRequest) -> StorageProblem | None:
        try:
            if not file.overwrite and file.target in taken:
                raise EntryExists
            entry = Entry("", file.size, file.modified, False, etag=file.etag)
            if not (decides_version and file.etag):
                shown, entry = entry, await source_driver.stat(file.source)
                if entry.is_dir or not is_same(entry, shown):
                    raise StorageProblem(CHANGED)
            await copy_object(objects, source, entry, key, file.overwrite)
        except EntryChanged:
            return EntryChanged(CHANGED)
        except StorageProblem as problem:
            return problem
        return None

    return await gather_bounded([partial(copy_one, *file) for file in files], COPY_CONCURRENCY)


async def copy_folder(
    objects: Objects, entries: Mapping[str, Entry], old: str, new: str, placeholder: str, overwrite: bool
) -> None:
    """Copy the objects `found` below the prefix `old` to the prefix `new`.

    Without `overwrite` the placeholder of the new folder is made first, if the server refuses a second one: of two
    copies to one name, one succeeds. After a failure, the copied objects are removed again.
    """
    claims = not overwrite and (await objects.conditions.ask()).puts
    if claims:
        await objects.put(new + placeholder, b"", overwrite=False)
    keys = [key for key in entries if not claims or key != old + placeholder]
    copies: dict[str, Entry] = {}

    async def copy_one(key: str) -> None:
        source, target = {"Bucket": objects.api.bucket, "Key": key}, new + key.removeprefix(old)
        etag = await copy_object(objects, source, entries[key], target, overwrite)
        copies[target] = Entry("", entries[key].size, 0.0, False, etag=etag)

    try:
        await gather_bounded([partial(copy_one, key) for key in keys], COPY_CONCURRENCY)
    except BaseException:
        if claims:
            copies[new + placeholder] = Entry("", 0, 0.0, False)
            await finish_despite_cancel(_remove_copies(objects, copies))
        raise
    if claims and keys and old + placeholder not in entries:
        await objects.api("delete_object", Key=new + placeholder)


async def _remove_copies(objects: Objects, copies: Mapping[str, Entry]) -> None:
    async def remove_one(key: str) -> None:
        with suppress(StorageProblem):  # the failure that led here is the one to raise
            await objects.remove_unchanged(key, copies[key])

    await gather_bounded([partial(remove_one, key) for key in copies], COPY_CONCURRENCY)
