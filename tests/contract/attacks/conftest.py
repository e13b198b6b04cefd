"""The service of the attacks, for some of them also where the kernel does not know openat2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service import Client, Service, run_service


@pytest.fixture(scope="session")
def walking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has to open what is below a root folder by folder."""
    with run_service(tmp_path_factory.mktemp("walking") / "data", "tests.support.walking") as service:
        yield service


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, service: Service) -> Service:
    """The service of the whole run, or the one that a parameter names (see CONFINEMENTS in `scene`)."""
    name = getattr(request, "param", "")
    return request.getfixturevalue(name) if name else service


@pytest.fixture(scope="module")
def admin(service: Service) -> Client:
    """Its administrator, signed in."""
    return service.client()
