"""Requests that clients send to the bucket themselves."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from mangrove.core.problems import EntryExists, EntryNotFound
from mangrove.drivers.base import SignedRequest, StoredPart, Upload
from mangrove.drivers.s3 import direct
from mangrove.drivers.s3.driver import S3
from tests.unit.drivers.s3.bucket import Bucket, P, run_on_driver

CRC = "y/Q5Jg=="  # of 123456789
BODY = b"123456789"


def send(request: SignedRequest, content: bytes = BODY) -> int:
    return httpx.request(request.method, request.url, content=content, headers=dict(request.headers)).status_code


@pytest.mark.parametrize("enabled", [True, False])
def test_clients_send_to_the_storage_where_the_option_says_so(
    bucket: Bucket, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(driver: S3) -> bool:
        return driver.offers_direct_uploads

    assert run_on_driver(bucket.options(enable_direct_upload=enabled), ask) is enabled


def test_they_send_to_the_host_of_the_option(bucket: Bucket) -> None:
    async def sign(driver: S3) -> SignedRequest:
        return await driver.sign_part(P("/a b"), "token", 3, 9, CRC)

    url = httpx.URL(run_on_driver(bucket.options(direct_upload_host="https://up.test"), sign).url)
    assert (url.scheme, url.host, url.path) == ("https", "up.test", f"/{bucket.name}/a b")
    assert (url.params["partNumber"], url.params["uploadId"]) == ("3", "token")
    signed = url.params["X-Amz-SignedHeaders"].split(";")
    assert signed == ["content-length", "host", "x-amz-checksum-crc32"]


def test_on_aws_they_send_to_the_host_of_the_region(bucket: Bucket) -> None:
    async def sign(driver: S3) -> SignedRequest:
        return await driver.sign_part(P("/f"), "token", 1, 9, CRC)

    signed = run_on_driver(bucket.options(endpoint="", region="eu-west-3"), sign)
    assert ".s3.eu-west-3.amazonaws.com/" in signed.url or "//s3.eu-west-3.amazonaws.com/" in signed.url


def test_parts_that_were_sent_are_listed_page_by_page(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "LIST_PAGE", 2)

    async def store(driver: S3) -> Sequence[StoredPart]:
        token = await driver.begin(P("/f"), Upload(9, 0.0), "key")
        for number in (4, 1, 2, 5, 3):
            assert send(await driver.sign_part(P("/f"), token, number, 9, CRC)) == 200
        return await driver.list_parts(P("/f"), token)

    parts = run_on_driver(bucket.options(), store)
    assert [(part.number, part.size) for part in parts] == [(number, 9) for number in range(1, 6)]


def test_the_etag_of_a_file_is_known_before_it_is_made(bucket: Bucket) -> None:
    async def store(driver: S3) -> None:
        token = await driver.begin(P("/f"), Upload(9, 0.0), "key")
        assert send(await driver.sign_part(P("/f"), token, 1, 9, CRC)) == 200
        receipts = [part.receipt for part in await driver.list_parts(P("/f"), token)]
        entry = await driver.finish(P("/f"), token, receipts, Upload(9, 0.0))
        assert entry.etag == driver.predict_etag(receipts) != ""
        with pytest.raises(EntryNotFound):
            await driver.list_parts(P("/f"), token)

    run_on_driver(bucket.options(), store)
    assert bucket.get("f") == BODY


def test_a_whole_file_is_sent_with_one_request(bucket: Bucket) -> None:
    async def store(driver: S3) -> None:
        request = await driver.sign_upload(P("/f"), Upload(9, 0.0, "text/plain", overwrite=False))
        assert send(request) == 200
        assert send(request) == 412  # the bucket itself refuses a name that was taken meanwhile
        with pytest.raises(EntryExists):
            await driver.sign_upload(P("/f"), Upload(9, 0.0, overwrite=False))

    run_on_driver(bucket.options(), store)
    assert bucket.client.head_object(Bucket=bucket.name, Key="f")["ContentType"] == "text/plain"
