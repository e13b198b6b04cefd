"""Errors of boto3, its transport and an S3 server, as StorageProblem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as TransportError

from mangrove.problems import Forbidden, NotFound, NotSupported, StorageProblem, Unreachable

_ABSENT = {"NoSuchKey", "NoSuchUpload", "404", "NotFound"}
_DENIED = {
    "AccessDenied", "403", "Forbidden", "SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken",
    "AllAccessDisabled", "AccountProblem",
}  # fmt: skip


def make_problem(code: str, status: int, message: str) -> StorageProblem:
    """The problem for an error code of the S3 protocol."""
    if code == "NoSuchBucket":
        return StorageProblem("the bucket does not exist")
    if code in _ABSENT or (status == 404 and not code):
        return NotFound()
    if code in _DENIED or status == 403:
        return Forbidden()
    if code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "301"):
        return StorageProblem("the bucket is in another region")
    if status == 501 or code == "NotImplemented":
        return NotSupported()
    if status >= 500 or code in ("SlowDown", "RequestTimeout", "InternalError"):
        return Unreachable(f"the S3 server answers {code or status}")
    return StorageProblem(f"the S3 server answers {code or status}: {message[:200]}")


_NO_ANSWER = (
    TransportError, HTTPClientError, IncompleteReadError, ResponseStreamingError, httpx.HTTPError, OSError,
)  # fmt: skip


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise every failure of the S3 side as StorageProblem, without a key or a signature in its text."""
    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise make_problem(str(details.get("Code", "")), status, str(details.get("Message", ""))) from error
    except (NoCredentialsError, PartialCredentialsError):
        raise StorageProblem("no access keys, and the process runs under no role") from None
    except _NO_ANSWER as error:
        raise Unreachable(f"the S3 server does not answer ({type(error).__name__})") from error
    except (BotoCoreError, httpx.InvalidURL, ValueError) as error:
        raise StorageProblem(f"the S3 options are not usable: {type(error).__name__}") from error
