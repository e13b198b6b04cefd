"""Errors of boto3, its transport and an S3 server, as StorageProblem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as TransportError

from mangrove.core.problems import (
    EntryChanged,
    EntryNotFound,
    NotSupported,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)

_ABSENT = {"NoSuchKey", "NoSuchUpload", "404", "NotFound"}
_DENIED = {
    "AccessDenied", "403", "Forbidden", "SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken",
    "AllAccessDisabled", "AccountProblem",
}  # fmt: skip
_CONFLICT = "ConditionalRequestConflict"
_DAMAGES = {"BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"}
DAMAGED = "the bytes were damaged in transit"


def make_problem(code: str, status: int, message: str) -> StorageProblem:
    """Return the problem for an error code of the S3 protocol."""
    if code == "NoSuchBucket":
        return StorageProblem("the bucket does not exist")
    if code in _ABSENT or (status == 404 and not code):
        return EntryNotFound()
    if code in _DENIED or status == 403:
        return StorageForbidden()
    if code == "PreconditionFailed" or status == 412:
        return EntryChanged()
    if code in _DAMAGES:
        return Unreachable(DAMAGED)  # the class that is retried: the next time they may arrive intact
    if code == _CONFLICT:
        return Unreachable("another request changes the object at the same time")
    if code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "301"):
        return StorageProblem("the bucket is in another region")
    if status == 501 or code == "NotImplemented":
        return NotSupported()
    if status >= 500 or code in ("SlowDown", "RequestTimeout", "InternalError"):
        return Unreachable(f"the S3 server answers {code or status}")
    return StorageProblem(f"the S3 server answers {code or status}: {message[:200]}")


def make_no_answer(error: Exception) -> StorageProblem:
    """The problem for a request that got no whole answer."""
    return Unreachable(f"the S3 server does not answer ({type(error).__name__})")


def make_unusable(error: Exception) -> StorageProblem:
    """Return the problem for a request that these options cannot make."""
    return StorageProblem(f"the S3 options are not usable: {type(error).__name__}")


_NO_ANSWER = (
    TransportError, HTTPClientError, IncompleteReadError, ResponseStreamingError, OSError,
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
        raise StorageProblem("there are no access keys, and the process has no role") from None
    except FlexibleChecksumError as error:
        raise Unreachable(DAMAGED) from error
    except _NO_ANSWER as error:
        raise make_no_answer(error) from error
    except (BotoCoreError, ValueError) as error:
        raise make_unusable(error) from error


def _get_answer(problem: StorageProblem) -> Any:
    """Return the answer of the server in the form of boto3; empty if the problem is of another kind."""
    return problem.__cause__.response if isinstance(problem.__cause__, ClientError) else {}


def is_conflict(problem: StorageProblem) -> bool:
    """True if a request failed only because another one was in progress."""
    return bool(_get_answer(problem).get("Error", {}).get("Code") == _CONFLICT)


def is_refusal(problem: StorageProblem) -> bool:
    """True if the server does not accept the request as it is, as a server that does not know a header may answer."""
    answer = _get_answer(problem)
    if answer.get("Error", {}).get("Code") in _DAMAGES:
        return False
    return answer.get("ResponseMetadata", {}).get("HTTPStatusCode") in (400, 501)


def was_repeated(problem: StorageProblem) -> bool:
    """True if boto3 had sent the request before without an answer: it may have been executed then."""
    return bool(_get_answer(problem).get("ResponseMetadata", {}).get("RetryAttempts"))
