"""The frequent operations on one object, with the arguments and results of boto3 (see `requests`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import ClientError

from mangrove.core.http_answers import HttpAnswer
from mangrove.core.signatures import UNSIGNED, encode_path
from mangrove.drivers.s3.requests import Request, parse_texts

MAX_EMPTY_BYTES = 4096  # of a body that should be empty: a connection is used again when its answer is read
EMPTY_HASH = hashlib.sha256(b"").hexdigest()
_METHODS = {
    "put_object": "PUT", "upload_part": "PUT", "copy_object": "PUT", "get_object": "GET", "head_object": "HEAD",
    "delete_object": "DELETE",
}  # fmt: skip
_SENT_HEADERS = {
    "ContentType": "content-type",
    "ContentMD5": "content-md5",
    "ChecksumAlgorithm": "x-amz-sdk-checksum-algorithm",
    "ChecksumCRC32": "x-amz-checksum-crc32",
    "ChecksumMode": "x-amz-checksum-mode",
    "CopySourceIfMatch": "x-amz-copy-source-if-match",
    "IfMatch": "if-match",
    "IfNoneMatch": "if-none-match",
    "Range": "range",
}
_QUERY = {"UploadId": "uploadId", "PartNumber": "partNumber", "VersionId": "versionId"}
_ARGUMENTS = {"Key", "Body", "CopySource", *_SENT_HEADERS, *_QUERY}
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
    if operation == "get_bucket_versioning" and not arguments:
        return Request(operation, "GET", "", {"versioning": ""}, {}, b"", EMPTY_HASH)
    if operation not in _METHODS or not arguments.get("Key") or not arguments.keys() <= _ARGUMENTS:
        return None
    headers = {_SENT_HEADERS[name]: str(value) for name, value in arguments.items() if name in _SENT_HEADERS}
    if "CopySource" in arguments:
        headers["x-amz-copy-source"] = _format_copy_source(**arguments["CopySource"])
    query = {_QUERY[name]: str(value) for name, value in arguments.items() if name in _QUERY}
    body = arguments.get("Body", b"")
    has_checksum = "ContentMD5" in arguments or "ChecksumCRC32" in arguments
    body_hash = UNSIGNED if is_encrypted and has_checksum else hashlib.sha256(body).hexdigest() if body else EMPTY_HASH
    return Request(operation, _METHODS[operation], arguments["Key"], query, headers, body, body_hash)


def _format_copy_source(Bucket: str, Key: str, VersionId: str = "") -> str:  # the names of boto3
    return encode_path(f"{Bucket}/{Key}") + (f"?versionId={VersionId}" if VersionId else "")


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


def parse_answer(operation: str, answer: HttpAnswer) -> dict[str, Any]:
    """Return the result of an operation. It has the open `answer` as the body of get_object, and is closed otherwise.

    Raise ValueError if size or time cannot be read.
    """
    try:
        result: dict[str, Any] = {
            _RECEIVED_HEADERS[name]: value for name, value in answer.headers.items() if name in _RECEIVED_HEADERS
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
    try:
        body = answer.read(MAX_EMPTY_BYTES)
        if operation == "copy_object":
            return result | {"CopyObjectResult": {"ETag": _read_copy(operation, body + _read_rest(answer))}}
        if operation == "get_bucket_versioning":
            return result | {"Status": parse_texts(body, "Status")[0]}
    finally:
        answer.close()
    return result


def _read_rest(answer: HttpAnswer) -> bytes:
    """Return the rest of the answer to a copy, before which the server sends spaces for as long as it copies."""
    rest = b""
    while block := answer.read(MAX_EMPTY_BYTES):
        rest = (rest + block)[-MAX_EMPTY_BYTES:].lstrip()
    return rest


def _read_copy(operation: str, body: bytes) -> str:
    """Return the ETag of a copy. Raise ClientError for a failure that follows the status of success."""
    etag, code, message = parse_texts(body.lstrip(), "ETag", "Code", "Message")
    if etag:
        return etag
    metadata = {"HTTPStatusCode": 500, "RetryAttempts": 0}
    error: Any = {"Error": {"Code": code or "InternalError", "Message": message}, "ResponseMetadata": metadata}
    raise ClientError(error, operation)
