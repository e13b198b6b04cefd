"""Requests to an S3 server without botocore, which spends 1.2 ms of CPU on each where this takes 0.3 ms.

Botocore names the address of the bucket, refreshes the credentials of a role and sends the requests that are rare. A
function names the address of an AWS bucket itself, see `find_usual_address`.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree  # from a server; expat limits the growth of entities

from botocore.exceptions import ClientError

from mangrove.core.aws_calls import DOMAIN, is_usual_region
from mangrove.core.http_answers import HttpAnswer
from mangrove.core.http_connections import HttpConnections
from mangrove.core.signatures import Signer, encode_path, encode_query

ATTEMPTS = 2  # of a request that gets no answer, or one that asks to try again
MAX_PAUSE_SECONDS = 1.0  # before the second attempt
MAX_ERROR_BYTES = 64 << 10  # of the answer to a request that failed
RETRIED_STATUSES = (500, 502, 503, 504)
RETRIED_CODES = ("RequestTimeout", "SlowDown", "Throttling", "RequestLimitExceeded")
MOVED_STATUSES = (301, 307, 308)
MOVED_CODES = ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException")

USUAL_BUCKET = re.compile("[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")  # a name that can be a label of a domain
LOOPBACK = re.compile(
    r"http://127\.0\.0\.1(:\d+)?/?"
)  # a server for tests, whose addresses name the bucket in the path
ENDPOINT_MODES = ("AWS_S3_US_EAST_1_REGIONAL_ENDPOINT", "AWS_S3_USE_ARN_REGION")


class BucketMoved(Exception):
    """The bucket is in another region. `region` is empty if the server does not name it."""

    def __init__(self, region: str) -> None:
        super().__init__(region)
        self.region = region


class Request(NamedTuple):
    """A request about the object `key` of the bucket, or about the bucket if it is "". Header names are in lower case.

    `body_hash`: SHA-256 of the body in hex, or a constant in its place.
    """

    operation: str
    method: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | bytearray
    body_hash: str


class BucketAddress(NamedTuple):
    """The address of a bucket: an encoded `prefix` stands before every key."""

    scheme: str
    host: str
    port: int | None
    netloc: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> BucketAddress:
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port, parts.netloc, parts.path.rstrip("/"))


class Requests:
    """Sends signed requests to one bucket."""

    def __init__(self, address: BucketAddress, signer: Signer, connections: HttpConnections, user_agent: str) -> None:
        self._address = address
        self._signer = signer
        self._connections = connections
        self._unsigned = {"user-agent": user_agent} if user_agent else {}

    @property
    def is_encrypted(self) -> bool:
        """True if the connections are protected by TLS."""
        return self._address.scheme == "https"

    def send(self, request: Request) -> HttpAnswer:
        """Send a request, again if the server does not answer or asks for it.

        Raise ClientError for an error of the server, OSError if there is no answer, BucketMoved.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = self._send_once(request)
                if answer.status < 300:
                    return answer
                error = _read_error(request, answer, attempt)
            except OSError:
                if attempt == ATTEMPTS:
                    raise
            else:
                if attempt == ATTEMPTS or not _is_retried(error):
                    raise error
            time.sleep(random.uniform(0, MAX_PAUSE_SECONDS))
        raise AssertionError("the last attempt returns or raises")

    def sign_link(self, key: str, query: Mapping[str, str], seconds: int) -> str:
        """Return the signed address of an object, valid for `seconds`."""
        address, path = self._address, self._make_path(key)
        signed = self._signer.sign_query("GET", address.netloc, path, query, seconds)
        return f"{address.scheme}://{address.netloc}{path}?{signed}"

    def _make_path(self, key: str) -> str:
        return f"{self._address.prefix}/{encode_path(key)}" if key else self._address.prefix or "/"

    def _send_once(self, request: Request) -> HttpAnswer:
        address, path = self._address, self._make_path(request.key)
        headers = {"host": address.netloc, **request.headers}
        signed = self._signer.sign(request.method, path, request.query, headers, request.body_hash)
        target = f"{path}?{encode_query(request.query)}" if request.query else path
        return self._connections.send(request.method, target, signed | self._unsigned, request.body)

    def close(self) -> None:
        self._connections.close()


def _read_error(request: Request, answer: HttpAnswer, attempt: int) -> ClientError:
    """Return the error in an answer, in the form of botocore. Raise BucketMoved if the request has to go elsewhere."""
    try:
        body = answer.read(MAX_ERROR_BYTES)
    finally:
        answer.close()
    code, message, region = parse_error(body)
    code = code or str(answer.status)
    if answer.status in MOVED_STATUSES or code in MOVED_CODES:
        raise BucketMoved(answer.headers.get("x-amz-bucket-region", region))
    metadata = {"HTTPStatusCode": answer.status, "RetryAttempts": attempt - 1}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}, request.operation)


def parse_error(body: bytes) -> tuple[str, str, str]:
    """Return code, message and region of an error document; empty if it is none."""
    code, message, region = parse_texts(body, "Code", "Message", "Region")
    return code, message, region


def parse_texts(body: bytes, *names: str) -> list[str]:
    """Return the texts of elements below the root of a document; empty for an absent one, or if it is no document."""
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - see the import
    except ElementTree.ParseError:
        return [""] * len(names)
    namespace = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    return [root.findtext(f"{namespace}{name}", "") for name in names]


def _is_retried(error: ClientError) -> bool:
    response: Any = error.response
    status, code = response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]
    return status in RETRIED_STATUSES or code in RETRIED_CODES


def find_address(presigned_url: str, key: str) -> BucketAddress:
    """Return the address of a bucket from the signed address of an object in it."""
    url = presigned_url.partition("?")[0]
    return BucketAddress.parse(url.removesuffix(f"/{key}"))


def find_usual_address(region: str, bucket: str) -> BucketAddress | None:
    """Return the address of a bucket of AWS as botocore has it; None if only botocore knows it."""
    if not is_usual_region(region) or USUAL_BUCKET.fullmatch(bucket) is None or "--" in bucket:
        return None
    if any(os.environ.get(name) for name in ENDPOINT_MODES):
        return None
    if url := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        return BucketAddress.parse(f"{url.rstrip('/')}/{bucket}") if LOOPBACK.fullmatch(url) else None
    return BucketAddress.parse(f"https://{bucket}.s3.{f'{region}.' if '-gov-' in region else ''}{DOMAIN}")
