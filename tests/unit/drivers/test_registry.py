"""Which drivers there are, and what happens when one is mounted that is not there yet."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.drivers import registry, unavailable
from mangrove.drivers.base import Driver, DriverContext
from mangrove.problems import Missing, NotSupported

NAMES = ["Alias", "Crypt", "FTP", "Local", "S3", "SFTP", "SMB", "UrlTree", "Virtual", "WebDav"]


def test_every_driver_is_loaded_by_its_name() -> None:
    assert registry.list_names() == NAMES
    for name in NAMES:
        kind = registry.load(name)
        assert issubclass(kind, Driver)
        assert kind.name == name
        assert registry.load(name) is kind


def test_a_name_that_is_no_driver_is_missing() -> None:
    for name in ("", "local", "base", "unavailable"):
        with pytest.raises(Missing) as refusal:
            registry.load(name)
        assert refusal.value.message == f"driver [{name}] not found"


@pytest.mark.parametrize("name", unavailable.FORMS)
def test_a_driver_that_is_not_there_yet_has_a_form_and_refuses_to_start(name: str) -> None:
    kind = registry.load(name)
    assert registry.build_template(name)["config"]["name"] == name
    driver = kind(kind.Options.parse("{}"), DriverContext())
    with pytest.raises(NotSupported) as refusal:
        asyncio.run(driver.start())
    assert refusal.value.message == f"the driver {name} is not available in this version yet"
