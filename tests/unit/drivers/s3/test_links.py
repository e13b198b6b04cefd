"""Signed URLs of objects."""

from __future__ import annotations

import httpx
import pytest

from mangrove.drivers.s3.direct import remove_bucket, replace_host
from mangrove.drivers.s3.driver import S3
from mangrove.drivers.s3.options import parse_endpoint
from tests.unit.drivers.s3.bucket import Bucket, P, run_on_driver


def test_links_give_the_bytes_under_their_name(bucket: Bucket) -> None:
    bucket.put("a b+ä.txt", content=b"linked")
    link = run_on_driver(bucket.options(add_filename_to_disposition=True), lambda driver: driver.link(P("/a b+ä.txt")))
    answer = httpx.get(link.url)
    assert (answer.status_code, answer.content, link.lifetime) == (200, b"linked", 4 * 3600)
    name = "a%20b%2B%C3%A4.txt"
    assert answer.headers["content-disposition"] == f"attachment; filename=\"{name}\"; filename*=utf-8''{name}"
    plain = run_on_driver(bucket.options(sign_url_expire=1000), lambda driver: driver.link(P("/a b+ä.txt")))
    assert plain.lifetime == 7 * 24 * 3600  # no signature is valid for longer
    assert "X-Amz-Expires=604800" in plain.url
    assert httpx.get(plain.url).headers["content-disposition"] == "attachment"


def test_a_custom_host_takes_the_place_of_the_endpoint(bucket: Bucket) -> None:
    async def link(driver: S3) -> str:
        return (await driver.link(P("/f"))).url

    assert run_on_driver(bucket.options(custom_host="cdn.test"), link) == f"https://cdn.test/{bucket.name}/f"
    assert run_on_driver(bucket.options(custom_host="http://cdn.test", remove_bucket=True), link) == "http://cdn.test/f"
    signed = run_on_driver(bucket.options(custom_host="cdn.test", enable_custom_host_presign=True), link)
    assert signed.startswith(f"https://cdn.test/{bucket.name}/f?")
    assert "X-Amz-Signature=" in signed


@pytest.mark.parametrize("signed", [True, False])
def test_a_url_keeps_its_path_and_its_signature_at_another_host(signed: bool) -> None:
    url = replace_host("https://s3.test/b/a%20b?X-Amz-Signature=1", "http://cdn.test:8080/base/", signed)
    assert url == "http://cdn.test:8080/base/b/a%20b" + ("?X-Amz-Signature=1" if signed else "")


@pytest.mark.parametrize(
    ("url", "plain"),
    [("https://x/b/b/f", "https://x/b/f"), ("https://x/bb/f", "https://x/bb/f"), ("https://b.x/f", "https://b.x/f")],
)
def test_a_bucket_is_removed_only_from_the_beginning_of_a_path(url: str, plain: str) -> None:
    assert remove_bucket(url, "b") == plain


@pytest.mark.parametrize(
    ("text", "endpoint"), [("", None), (" ", None), ("x.test/", "https://x.test"), ("http://x:9000", "http://x:9000")]
)
def test_an_endpoint_without_a_scheme_is_https(text: str, endpoint: str | None) -> None:
    assert parse_endpoint(text) == endpoint
