"""Errors of boto3 and of S3 servers, as problems."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from mangrove.core.problems import EntryNotFound, NotSupported, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers import base
from mangrove.drivers.s3.errors import make_problem, translate_errors
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import Bucket, P, odd_server, run_on_driver


def test_a_missing_bucket_is_named_as_the_reason(bucket: Bucket) -> None:
    with pytest.raises(StorageProblem, match="bucket does not exist"):
        run_on_driver(bucket.options(bucket="nosuchbucket"), lambda driver: base.list_all(driver, P("/")))


def test_a_server_without_ranges_never_gives_wrong_bytes() -> None:
    with odd_server(200, b"0123456789") as options:
        with pytest.raises(StorageProblem, match="ranges"):
            run_on_driver(options, lambda driver: actions.content(driver, "/f", 4))


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("NoSuchKey", 404, EntryNotFound), ("NoSuchUpload", 404, EntryNotFound), ("", 404, EntryNotFound),
        ("AccessDenied", 403, StorageForbidden), ("Odd", 403, StorageForbidden), ("InvalidAccessKeyId", 400,
        StorageForbidden),
        ("NotImplemented", 501, NotSupported), ("SlowDown", 503, Unreachable), ("", 500, Unreachable),
        ("PermanentRedirect", 301, StorageProblem), ("NoSuchBucket", 404, StorageProblem), ("Odd", 400, StorageProblem),
    ],
)  # fmt: skip
def test_every_answer_is_a_problem_of_its_kind(code: str, status: int, kind: type[StorageProblem]) -> None:
    assert type(make_problem(code, status, "why")) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientError({"Error": {"Code": "NoSuchKey"}, "ResponseMetadata": {"HTTPStatusCode": 404}}, "Get"),
        EntryNotFound),
        (NoCredentialsError(), StorageProblem),
        (EndpointConnectionError(endpoint_url="http://key:secret@x"), Unreachable), (OSError("secret"), Unreachable),
        (ValueError("secret"), StorageProblem),
    ],
)  # fmt: skip
def test_every_failure_is_translated_without_what_it_was_about(error: Exception, kind: type[StorageProblem]) -> None:
    with pytest.raises(StorageProblem) as caught, translate_errors():
        raise error
    assert type(caught.value) is kind
    assert "secret" not in caught.value.message


def test_server_error_with_checksum_is_translated() -> None:
    with odd_server(500, b"<Error/>", headers={"x-amz-checksum-crc32": "AAAAAA=="}) as options:
        run_on_driver(options, lambda driver: actions.fails(driver.read(P("/f")), Unreachable))
