"""Requests that a client sends to the bucket directly: their addresses, and the parts that arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mangrove.drivers.base import SignedRequest, StoredPart, Upload
from mangrove.drivers.s3.checksums import ChecksumAlgorithm
from mangrove.drivers.s3.conditions import ABSENT
from mangrove.drivers.s3.errors import translate_errors
from mangrove.drivers.s3.objects import Objects, UploadedPart

LIFETIME = 900  # seconds within which a signed request has to start
LIST_PAGE = 1000  # parts that a server lists in one answer


async def sign_upload(objects: Objects, key: str, upload: Upload) -> SignedRequest:
    """Sign a PUT of a whole object.

    Without `overwrite` the server refuses it if the key is taken, if it supports that.
    """
    assert upload.size is not None
    headers = {"content-type": upload.mime}
    arguments: dict[str, Any] = {"Key": key, "ContentLength": upload.size, "ContentType": upload.mime}
    if not upload.overwrite and (await objects.conditions.ask()).puts:
        arguments |= ABSENT
        headers["if-none-match"] = "*"
    return await _sign(objects, "put_object", arguments, headers)


async def sign_part(objects: Objects, key: str, upload_id: str, number: int, size: int, crc32: str) -> SignedRequest:
    """Sign a PUT of one part. For a server that does not verify CRC-32, only the size is signed."""
    arguments = {"Key": key, "UploadId": upload_id, "PartNumber": number, "ContentLength": size}
    headers = {}
    if objects.integrity.kind is ChecksumAlgorithm.CRC32:
        arguments["ChecksumCRC32"] = crc32
        headers["x-amz-checksum-crc32"] = crc32
    return await _sign(objects, "upload_part", arguments, headers)


async def _sign(
    objects: Objects, operation: str, arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> SignedRequest:
    api = objects.api
    client = await api.take_upload_client()
    query = {"Bucket": api.bucket, **arguments}
    with translate_errors():
        url = await api.run(lambda: client.generate_presigned_url(operation, Params=query, ExpiresIn=LIFETIME))
    return SignedRequest("PUT", url, headers, LIFETIME)


async def list_parts(objects: Objects, key: str, upload_id: str) -> Sequence[StoredPart]:
    """Return the parts of an upload as the server lists them. Raise EntryNotFound if it does not know the upload."""
    parts: list[StoredPart] = []
    marker = 0
    while True:
        answer = await objects.api(
            "list_parts", Key=key, UploadId=upload_id, MaxParts=LIST_PAGE, PartNumberMarker=marker
        )
        for item in answer.get("Parts", ()):
            part = UploadedPart(item["Size"], item["ETag"], item.get("ChecksumCRC32", ""))
            parts.append(StoredPart(item["PartNumber"], item["Size"], part.format_receipt()))
        following = int(answer.get("NextPartNumberMarker") or 0)
        if not answer.get("IsTruncated") or following <= marker:
            return parts
        marker = following


def replace_host(url: str, address: str, signed: bool) -> str:
    """Return `url` at another scheme, host and base path; without its query unless `signed`."""
    parts, host = urlsplit(url), urlsplit(address)
    query = parts.query if signed else ""
    return urlunsplit((host.scheme, host.netloc, host.path.rstrip("/") + parts.path, query, ""))


def remove_bucket(url: str, bucket: str) -> str:
    """Return `url` without the bucket at the start of its path."""
    parts = urlsplit(url)
    path = parts.path
    if path.startswith(f"/{bucket}/"):
        path = path[len(bucket) + 1 :]
    return urlunsplit(parts._replace(path=path))
