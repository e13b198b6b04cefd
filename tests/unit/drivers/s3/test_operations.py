"""Operations that functions send without botocore: the same results and failures as with it."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from mangrove.core.http_connections import make_connections
from mangrove.core.signatures import Credentials, Signer
from mangrove.drivers.s3.operations import make_request, parse_answer
from mangrove.drivers.s3.requests import BucketAddress, Requests
from tests.unit.drivers.s3.bucket import Bucket, odd_server

KEY = "a b/ü+~'(1)*!&=%.txt"


def send(url: str, operation: str, arguments: dict[str, Any], parsed_as: str = "") -> dict[str, Any]:
    address = BucketAddress.parse(url)
    requests = Requests(
        address,
        Signer("s3", "us-east-1", lambda: Credentials("x", "y", "")),
        make_connections(address, None, 5, 5),
        "",
    )
    request = make_request(operation, arguments, is_encrypted=False)
    assert request is not None
    try:
        return parse_answer(parsed_as or operation, requests.send(request))
    finally:
        requests.close()


def call(bucket: Bucket, operation: str, **arguments: Any) -> dict[str, Any]:
    return send(f"{bucket.endpoint}/{bucket.name}", operation, arguments)


@pytest.mark.parametrize("status", ["", "Enabled", "Suspended"])
def test_versioning_is_that_of_the_bucket(bucket: Bucket, status: str) -> None:
    if status:
        bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": status})
    expected = bucket.client.get_bucket_versioning(Bucket=bucket.name)
    assert call(bucket, "get_bucket_versioning")["Status"] == expected.get("Status", "") == status


def test_copy_has_the_content_and_the_etag_of_its_source(bucket: Bucket) -> None:
    bucket.put(KEY, content=b"content")
    answer = call(bucket, "copy_object", Key=f"copies/{KEY}", CopySource={"Bucket": bucket.name, "Key": KEY})
    assert bucket.get(f"copies/{KEY}") == b"content"
    assert answer["CopyObjectResult"]["ETag"] == bucket.client.head_object(Bucket=bucket.name, Key=KEY)["ETag"]


def test_copy_of_a_version_has_its_content(bucket: Bucket) -> None:
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    first = bucket.client.put_object(Bucket=bucket.name, Key=KEY, Body=b"first")["VersionId"]
    bucket.client.put_object(Bucket=bucket.name, Key=KEY, Body=b"second")
    call(bucket, "copy_object", Key="copy", CopySource={"Bucket": bucket.name, "Key": KEY, "VersionId": first})
    assert bucket.get("copy") == b"first"


def test_copy_of_an_absent_object_fails_as_in_botocore(bucket: Bucket) -> None:
    arguments = {"Key": "copy", "CopySource": {"Bucket": bucket.name, "Key": "absent"}}
    with pytest.raises(ClientError) as expected:
        bucket.client.copy_object(Bucket=bucket.name, **arguments)
    with pytest.raises(ClientError) as raised:
        call(bucket, "copy_object", **arguments)
    assert raised.value.response["Error"]["Code"] == expected.value.response["Error"]["Code"]


def test_copy_has_the_headers_that_botocore_sends(bucket: Bucket) -> None:
    arguments: dict[str, Any] = {"Key": "copy", "CopySource": {"Bucket": bucket.name, "Key": KEY, "VersionId": "v/1"}}
    arguments |= {"CopySourceIfMatch": '"e"', "IfNoneMatch": "*"}
    sent: dict[str, str] = {}
    bucket.client.meta.events.register("before-send", lambda request, **_: sent.update(request.headers.items()))
    with pytest.raises(ClientError):
        bucket.client.copy_object(Bucket=bucket.name, **arguments)
    expected = {name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in sent.items()}
    request = make_request("copy_object", arguments, is_encrypted=False)
    assert request is not None
    assert set(request.headers) == {"x-amz-copy-source", "x-amz-copy-source-if-match", "if-none-match"}
    assert {name: expected[name] for name in request.headers} == request.headers


def test_copy_waits_for_the_document_behind_spaces() -> None:
    document = b'<?xml version="1.0"?>\n<CopyObjectResult xmlns="http://s3"><ETag>"e"</ETag></CopyObjectResult>'
    with odd_server(200, b" " * 10_000 + document) as options:
        answer = send(f"{options.endpoint}/bucket", "get_object", {"Key": "copy"}, parsed_as="copy_object")
    assert answer["CopyObjectResult"] == {"ETag": '"e"'}


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"<Error><Code>SlowDown</Code><Message>later</Message></Error>", "SlowDown"), (b"", "InternalError")],
)
def test_copy_that_fails_after_the_status_of_success_is_a_failure(content: bytes, code: str) -> None:
    with odd_server(200, content) as options, pytest.raises(ClientError) as raised:
        send(f"{options.endpoint}/bucket", "get_object", {"Key": "copy"}, parsed_as="copy_object")
    response: Any = raised.value.response
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == (code, 500)
