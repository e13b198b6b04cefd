"""The list of drivers."""

from __future__ import annotations

import pytest

from mangrove.core.problems import ResourceNotFound
from mangrove.drivers import registry
from mangrove.drivers.base import Driver


def test_every_driver_is_loaded_by_its_name() -> None:
    names = registry.list_names()
    assert names == sorted(names) and len(names) == len(registry.DRIVERS) >= 24
    for name in names:
        kind = registry.load(name)
        assert issubclass(kind, Driver)
        assert kind.name == name
        assert registry.load(name) is kind


def test_a_name_that_is_no_driver_is_missing() -> None:
    for name in ("", "local", "base", "options"):
        with pytest.raises(ResourceNotFound) as refusal:
            registry.load(name)
        assert refusal.value.message == f"driver [{name}] not found"
