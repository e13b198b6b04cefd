"""Who has a power: every driver that has its methods."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.drivers import ahead, base, direct, folder_batches, paging, registry, sending
from mangrove.drivers.base import Links, MakesDirectories, Writes
from mangrove.drivers.paging import ListsPages, ListsRanges
from mangrove.drivers.power import Power

MODULES = (ahead, base, direct, folder_batches, paging, sending)
POWERS = sorted(
    {one for module in MODULES for one in vars(module).values() if isinstance(one, type) and Power in one.__mro__}
    - {Power},
    key=lambda one: one.__name__,
)


def list_methods(power: type[Any]) -> set[str]:
    """What a protocol and those that it extends ask for."""
    classes = [one for one in power.__mro__ if one is not Power and Power in one.__mro__]
    return {name for one in classes for name, value in vars(one).items() if callable(value) and name[0] != "_"}


@pytest.mark.parametrize("name", sorted(registry.DRIVERS))
def test_a_driver_has_the_powers_whose_methods_it_has(name: str) -> None:
    kind = registry.load(name)
    driver = object.__new__(kind)
    assert len(POWERS) > 20
    for power in POWERS:
        methods = list_methods(power)
        assert methods
        assert isinstance(driver, power) == all(getattr(kind, one, None) is not None for one in methods), power


def test_a_method_that_is_none_is_no_power_and_what_extends_one_has_more() -> None:
    class Lists:
        async def list_page(self) -> None: ...

    class Blocked(Lists):
        list_page = None  # type: ignore[assignment]  # how Python takes an inherited method away

    assert isinstance(Lists(), ListsPages)
    assert not isinstance(Lists(), ListsRanges)
    assert not isinstance(Blocked(), ListsPages)
    assert not isinstance(Lists(), Links | Writes | MakesDirectories)
