"""Fixtures that several modules here use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.api import fixtures
from tests.protocol import places
from tests.protocol.places import Kind, Options, Place
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.xdist_group(f"users of {name}")) for name in places.KINDS],
)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each driver that is tried as users use it."""
    kind = places.KINDS[request.param]
    if kind.missing:
        pytest.skip(kind.missing)
    return kind


@pytest.fixture(scope="module")
def options(kind: Kind, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    """The options of a storage on a running server."""
    with kind.serve(tmp_path_factory.mktemp(kind.driver), admin) as served:
        yield served.options


@pytest.fixture(scope="module")
def mounted(kind: Kind, admin: Client, options: Options) -> Iterator[str]:
    """The mount path of a storage on that server."""
    with places.mount(admin, kind, options) as path:
        yield path


@pytest.fixture
def place(kind: Kind, admin: Client, options: Options, mounted: str) -> Place:
    return Place(admin, kind, options, mounted)


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    """The web server that downloads come from."""
    with origin.origin() as server:
        yield server


@pytest.fixture(scope="module")
def allow_loopback(admin: Client) -> Iterator[None]:
    """Downloads may reach this machine."""
    with fixtures.settings(admin, offline_download_allowed_hosts="127.0.0.1"):
        yield
