"""Nothing can be set that has no effect, unless the table says so."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from mangrove.configuration.values import DECLARED
from mangrove.drivers import registry
from mangrove.drivers.options import list_common_items
from mangrove.identity.rights import Right
from mangrove.records.accounts.users import User
from mangrove.records.metas import Meta
from mangrove.records.storages import Storage
from tests.contract import driver_effects, effects
from tests.contract.effects import Effects

TESTS = Path(__file__).parents[1]
LATER = {11: "drivers", 13: "cloud", 14: "doors", 17: "page"}  # issues that may be named
ALL: dict[str, tuple[Effects, set[str]]] = {
    "settings": (effects.SETTINGS, set(DECLARED)),
    "storage fields": (effects.STORAGE_FIELDS, {field.name for field in fields(Storage)}),
    "user fields": (effects.USER_FIELDS, {field.name for field in fields(User)}),
    "permission bits": (effects.PERMISSION_BITS, {str(right.name) for right in Right}),
    "rule fields": (effects.RULE_FIELDS, {field.name for field in fields(Meta)}),
    **{
        f"options of {name}": (
            driver_effects.DRIVER_OPTIONS.get(name, Effects({})),
            {item.name for item in registry.load(name).Options.list_form_items()},
        )
        for name in registry.list_names()
    },
}


def list_names(table: Effects) -> list[str]:
    """Every name as often as the table has it."""
    shown = [names for tests in table.shown.values() for names in tests.values()]
    return [name for names in (*shown, table.client, *table.not_yet.values()) for name in names.split()]


@cache
def find_tests(file: str) -> frozenset[str]:
    """The names of the tests in a file below tests/."""
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("kind", ALL)
def test_everything_that_can_be_set_stands_once_in_the_table(kind: str) -> None:
    table, names = ALL[kind]
    assert Counter(list_names(table)) == Counter(names)


@pytest.mark.parametrize("kind", ALL)
def test_every_test_that_the_table_names_is_there(kind: str) -> None:
    missing = [
        f"{file}::{test}"
        for file, tests in ALL[kind][0].shown.items()
        for test in tests
        if not test.startswith("test_") or test not in find_tests(file)
    ]
    assert missing == []


@pytest.mark.parametrize("kind", ALL)
def test_what_has_no_effect_yet_waits_for_a_later_issue(kind: str) -> None:
    assert set(ALL[kind][0].not_yet) <= {0, *LATER}


def test_every_driver_has_a_table_of_its_options() -> None:
    assert sorted(driver_effects.DRIVER_OPTIONS) == registry.list_names()


def test_what_a_form_shows_is_a_field_of_the_storage_or_an_option_of_the_driver() -> None:
    """So that the tables above have every item of every form."""
    for name in registry.list_names():
        kind = registry.load(name)
        assert {item.name for item in list_common_items(kind.config)} <= ALL["storage fields"][1]
        assert {item.name for item in kind.Options.list_form_items()} == ALL[f"options of {name}"][1]


def test_what_cannot_be_switched_on_is_what_the_table_of_settings_calls_absent() -> None:
    refusing = effects.SETTINGS.shown["unit/configuration/test_settings.py"][
        "test_what_is_not_there_cannot_be_switched_on"
    ]
    assert {*refusing.split()} == {key for key, setting in DECLARED.items() if setting.absent}
