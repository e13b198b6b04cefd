"""The capabilities that a driver states are the operations that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import pytest

from mangrove.drivers import registry
from mangrove.drivers.base import Capabilities, Driver

GROUPS: Mapping[str, Sequence[str]] = {  # the other capabilities announce the method of their name
    "parts": ("begin", "abort_by_key", "write_part", "finish", "abort"),
    "direct_uploads": ("offers_direct_uploads", "sign_upload", "sign_part", "list_parts"),
    "set_many_aside": ("set_many_aside", "stat_many"),
    "copy_from": ("copy_from", "plan_part_copies", "copy_part_from"),
    "versions": (
        "has_versions",
        "list_versions",
        "restore_version",
        "view_version",
        "find_removed",
        "restore_removed",
        "purge_removed",
    ),
    "find_others": ("find_others", "find_sources"),
}
MOVES = ("rename", "set_aside")  # a driver that moves entries need not define them


@pytest.mark.parametrize("name", sorted(registry.DRIVERS))
def test_capabilities_of_a_driver_are_the_methods_it_defines(name: str) -> None:
    kind = registry.load(name)
    for field in fields(Capabilities):
        for method in GROUPS.get(field.name, (field.name,)):
            defines = getattr(kind, method) is not getattr(Driver, method)
            states = getattr(kind.capabilities, field.name)
            assert states == defines or (states and method in MOVES and kind.capabilities.move), method


@pytest.mark.parametrize("name", sorted(registry.DRIVERS))
def test_registry_tells_which_drivers_show_other_parts_of_the_tree(name: str) -> None:
    assert registry.shows_others(name) == registry.load(name).capabilities.find_others
