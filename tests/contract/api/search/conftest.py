"""A service of their own: storages that other tests have left behind, dead ones too, would be indexed with theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service import Client, Service, run_forked


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("search") / "data") as service:
        yield service


@pytest.fixture(scope="package")
def admin(service: Service) -> Client:
    return service.client()
