"""The list of drivers."""

from __future__ import annotations

import json

import pytest

from mangrove.core.problems import BadRequest, ResourceNotFound
from mangrove.drivers import registry
from mangrove.drivers.base import Driver
from mangrove.tree.trash.moving import can_move


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


@pytest.mark.parametrize("name", sorted(registry.DRIVERS))
def test_driver_has_a_trash_or_its_form_says_that_removals_are_final(name: str) -> None:
    kind = registry.load(name)
    has_trash = "trash_days" in {item.name for item in kind.Options.list_form_items()}
    says_final = "removals are final" in kind.config.alert
    assert [has_trash, says_final, registry.shows_others(name)].count(True) == 1
    if has_trash:
        registry.refuse_trash(name, '{"trash_days": 30}')
        assert kind.capabilities.set_aside or can_move(kind.capabilities)


@pytest.mark.parametrize(
    ("name", "option", "advice"),
    [
        ("Seafile", "trash_days", "removals are final"),
        ("Crypt", "trash_days", "set it at the storage behind"),
        ("S3", "keep_versions", "do not have it$"),
    ],
)
def test_trash_that_a_driver_does_not_have_is_refused(name: str, option: str, advice: str) -> None:
    with pytest.raises(BadRequest, match=advice):
        registry.refuse_trash(name, json.dumps({option: 7}))
    for addition in (json.dumps({option: 0}), "", "[]", "{"):
        registry.refuse_trash(name, addition)
