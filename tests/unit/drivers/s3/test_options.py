"""Effects of the options of an S3 storage on its requests."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mangrove.drivers.base import list_all
from mangrove.drivers.s3.driver import S3
from mangrove.drivers.s3.options import S3Options
from mangrove.drivers.s3.pages import Page
from mangrove.tree.listing.listing import Listings
from mangrove.tree.mounts import StoragePath
from tests.unit.drivers.s3.bucket import Bucket, P, run_on_driver
from tests.unit.drivers.s3.proxy import Proxy
from tests.unit.tree.builders import mount

BUCKET = {"bucket": "bucket", "endpoint": "", "access_key_id": "AKIDX", "secret_access_key": "y"}


def sign(**more: Any) -> str:
    async def link(driver: S3) -> str:
        return (await driver.link(P("/a.txt"))).url

    url: str = run_on_driver(S3Options(**({"sign_url_expire": 0} | BUCKET | more)), link)
    return url


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "https://bucket.s3.amazonaws.com/a.txt"),
        ({"region": "eu-west-1", "force_path_style": True}, "https://s3.eu-west-1.amazonaws.com/bucket/a.txt"),
        ({"endpoint": "http://s3.test:9000", "force_path_style": True}, "http://s3.test:9000/bucket/a.txt"),
        ({"bucket": "other"}, "https://other.s3.amazonaws.com/a.txt"),
        ({"root_folder_path": "/in/it"}, "https://bucket.s3.amazonaws.com/in/it/a.txt"),
    ],
)
def test_where_an_object_is(options: dict[str, Any], address: str) -> None:
    assert sign(**options).partition("?")[0] == address


def test_who_asks() -> None:
    query = parse_qs(urlsplit(sign(region="eu-west-1", session_token="a token", access_key_id="AKIDZ")).query)
    assert query["X-Amz-Credential"][0].split("/")[0::2] == ["AKIDZ", "eu-west-1", "aws4_request"]
    assert query["X-Amz-Security-Token"] == ["a token"]
    other = parse_qs(urlsplit(sign(region="eu-west-1", secret_access_key="z")).query)
    assert "X-Amz-Security-Token" not in other
    assert other["X-Amz-Signature"] != query["X-Amz-Signature"]


def test_what_keeps_an_empty_folder(bucket: Bucket) -> None:
    async def make(driver: S3) -> None:
        await driver.makedirs(P("/d"))
        assert await list_all(driver, P("/d")) == []

    run_on_driver(bucket.options(placeholder=".keep"), make)
    assert bucket.keys() == ["d/.keep"]


@pytest.mark.parametrize(("minutes", "requests"), [(0, 3), (30, 1)])
def test_a_listing_is_kept_as_long_as_the_storage_says(bucket: Bucket, minutes: int, requests: int) -> None:
    async def look(driver: S3) -> int:
        request_count, listings = 0, Listings()
        list_page = driver.call.list_page

        async def count(prefix: str, start: str, names: str) -> Page:
            nonlocal request_count
            request_count += 1
            return await list_page(prefix, start, names)

        driver.call.list_page = count  # type: ignore[method-assign]
        storage_path = StoragePath(driver, P("/"), mount(driver="S3", cache_expiration=minutes))
        for _ in range(3):
            assert len((await listings.get(storage_path)).entries) == 1
        return request_count

    bucket.put("a.txt")
    assert run_on_driver(bucket.options(), look) == requests


def test_user_agent_option_names_every_request(proxy: Proxy, bucket_behind: Bucket) -> None:
    async def ask(driver: S3) -> None:
        await driver.stat(P("/a.txt"))
        assert [entry.name for entry in await list_all(driver, P("/"))] == ["a.txt"]
        await driver.makedirs(P("/d"))
        await driver.rename(P("/d"), P("/e"))

    bucket_behind.put("a.txt")
    run_on_driver(bucket_behind.options(user_agent="a reader/1.0"), ask)
    assert {"head_object", "list_objects", "copy_object"} <= {exchange.operation for exchange in proxy.seen}
    assert all(exchange.headers["user-agent"].startswith("a reader/1.0") for exchange in proxy.seen)
