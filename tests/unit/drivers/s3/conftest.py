"""Buckets for the tests of S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.unit.drivers.s3.bucket import Bucket


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(moto: str) -> Bucket:
    return Bucket(moto)
