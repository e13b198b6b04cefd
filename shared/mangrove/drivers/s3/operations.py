"""The frequent operations on one object, with the arguments and results of boto3 (see `requests`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from mangrove.core.signatures import UNSIGNED
from mangrove.drivers.s3.requests import Request, S3Answer

MAX_EMPTY_BYTES = 4096  # of a body that should be empty: a connection is used again when its answer is read
EMPTY_HASH = hashlib.sha256(b"").hexdigest()
_METHODS = {
    "put_object": "PUT", "upload_part": "PUT", "get_object": "GET", "head_object": "HEAD", "delete_object": "DELETE",
}  # fmt: skip
_SENT_HEADERS = {
    "ContentType": "content-type",
    "ContentMD5": "content-md5",
    "ChecksumAlgorithm": "x-amz-sdk-checksum-algorithm",
    "ChecksumCRC32": "x-amz-checksum-crc32",
    "ChecksumMode": "x-amz-checksum-mode",
    "IfMatch": "if-match",
    "IfNoneMatch": "if-none-match",
    "Range": "range",
}
_QUERY = {"UploadId": "uploadId", "PartNumber": "partNumber", "VersionId": "versionId"}
_ARGUMENTS = {"Key", "Body", *_SENT_HEADERS, *_QUERY}
_RECEIVED_HEADERS = {
    "etag": "ETag",
    "content-range": "ContentRange",
    "content-type": "ContentType",
    "x-amz-version-id": "VersionId",
    "x-amz-checksum-type": "ChecksumType",
    "x-amz-checksum-crc32": "ChecksumCRC32",
    "x-amz-checksum-crc32c": "ChecksumCRC32C",
    "x-amz-checksum-crc64nvme": "ChecksumCRC64NVME",
    "x-amz-checksum-sha1": "ChecksumSHA1",
    "x-amz-checksum-sha256": "ChecksumSHA256",
    "x-amz-server-side-encryption": "ServerSideEncryption",
    "x-amz-server-side-encryption-customer-algorithm": "SSECustomerAlgorithm",
}


def make_request(operation: str, arguments: Mapping[str, Any], is_encrypted: bool) -> Request | None:
    """Return the request of an operation; None if only botocore knows it.

    `is_encrypted`: the connection protects a body that has a checksum, so that it needs no hash in the signature.
    """
    if operation not in _METHODS or not arguments.get("Key") or not arguments.keys() <= _ARGUMENTS:
        return None
    headers = {_SENT_HEADERS[name]: str(value) for name, value in arguments.items() if name in _SENT_HEADERS}
    query = {_QUERY[name]: str(value) for name, value in arguments.items() if name in _QUERY}
    body = arguments.get("Body", b"")
    has_checksum = "ContentMD5" in arguments or "ChecksumCRC32" in arguments
    body_hash = UNSIGNED if is_encrypted and has_checksum else hashlib.sha256(body).hexdigest() if body else EMPTY_HASH
    return Request(operation, _METHODS[operation], arguments["Key"], query, headers, body, body_hash)


def make_listing(prefix: str, names: str, start: str, after: str, most: int, is_second_version: bool) -> Request:
    """Return the request for a page of a listing; see `Api.list_page`."""
    query = {"delimiter": "/", "encoding-type": "url", "prefix": prefix + names}
    query |= {"list-type": "2"} if is_second_version else {}
    if start:
        query["continuation-token" if is_second_version else "marker"] = start
    if after:
        query["start-after" if is_second_version else "marker"] = after
    if most:
        query["max-keys"] = str(most)
    return Request("list_objects", "GET", "", query, {}, b"", EMPTY_HASH)


def make_presence_check(prefix: str, is_second_version: bool) -> Request:
    """Return the request for the first key with a prefix."""
    query = {"encoding-type": "url", "max-keys": "1", "prefix": prefix}
    query |= {"list-type": "2"} if is_second_version else {}
    return Request("list_objects", "GET", "", query, {}, b"", EMPTY_HASH)


def parse_answer(operation: str, answer: S3Answer) -> dict[str, Any]:
    """Return the result of an operation. It has the open `answer` as the body of get_object, and is closed otherwise.

    Raise ValueError if size or time cannot be read.
    """
    try:
        result: dict[str, Any] = {
            _RECEIVED_HEADERS[name]: value
            for name, value in ((name.lower(), value) for name, value in answer.headers.items())
            if name in _RECEIVED_HEADERS
        }
        if "content-length" in answer.headers:
            result["ContentLength"] = int(answer.headers["content-length"])
        if "last-modified" in answer.headers:
            result["LastModified"] = parsedate_to_datetime(answer.headers["last-modified"])
    except ValueError:
        answer.close()
        raise ValueError("size or time of an object cannot be read") from None
    if operation == "get_object":
        return result | {"Body": answer}
    answer.read(MAX_EMPTY_BYTES)
    answer.close()
    return result
