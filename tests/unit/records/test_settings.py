"""Stored setting values."""

from __future__ import annotations

import pytest

from mangrove.records import settings
from mangrove.records.store import versions

pytestmark = pytest.mark.usefixtures("records")


def test_values_are_stored_replaced_and_forgotten() -> None:
    settings.save({"a": "1", "b": ""})
    settings.save({"a": "2"})
    assert settings.all() == {"a": "2", "b": ""}
    settings.delete("a")
    settings.delete("never there")
    assert settings.all() == {"b": ""}


def test_settings_of_one_transaction_are_one_configuration_write() -> None:
    values = {f"key-{number}": str(number) for number in range(2 * settings.MAX_WRITES_PER_TRANSACTION + 1)}
    settings.save(values)
    assert settings.all() == values
    assert versions.get_version() == 3
    settings.delete("key-0")
    assert versions.get_version() == 4
    assert settings.get_many({"key-0", "key-1"}) == {"key-1": "1"}


def test_nothing_to_save_changes_nothing() -> None:
    settings.save({})
    assert (settings.all(), versions.get_version()) == ({}, 0)
