"""Users of the WebDAV tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.api.accounts import People
from tests.contract.api.dav_client import EVERYTHING, Dav
from tests.support.service import Client, Service


@pytest.fixture(scope="module")
def people(service: Service, admin: Client) -> Iterator[People]:
    people = People(service, admin)
    yield people
    people.close()


@pytest.fixture(scope="module")
def dav(service: Service, people: People) -> Dav:
    """A user with every right for files."""
    return Dav(service, people.new(EVERYTHING))


@pytest.fixture(scope="module")
def other(service: Service, people: People) -> Dav:
    """Another user."""
    return Dav(service, people.new(EVERYTHING))
