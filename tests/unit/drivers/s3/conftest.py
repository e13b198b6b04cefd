"""Buckets for the tests of S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.drivers.s3.proxy import Proxy, proxied


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(moto: str) -> Bucket:
    return Bucket(moto)


@pytest.fixture
def proxy(moto: str) -> Iterator[Proxy]:
    with proxied(moto) as proxy_found:
        yield proxy_found


@pytest.fixture
def bucket_behind(proxy: Proxy, bucket: Bucket) -> Bucket:
    """A bucket that drivers reach through the proxy, and the test past it."""
    bucket.driver_endpoint = proxy.endpoint
    return bucket
