"""A service of each file of tests, with storages of all kinds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.crash import harness
from tests.crash.harness import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with servers.moto_s3() as endpoint, harness.world(tmp_path_factory.mktemp("world"), endpoint) as world:
        yield world
