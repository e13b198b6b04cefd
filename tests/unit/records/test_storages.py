"""Storage records: an addition is replaced if it is still the old one, a status is not part of the configuration."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mangrove.core.problems import RecordNotFound
from mangrove.records import storages
from mangrove.records.storages import Storage
from mangrove.records.store import versions
from mangrove.records.store.base import RecordConflict

pytestmark = pytest.mark.usefixtures("records")


def create(mount_path: str = "/x", **fields: Any) -> Storage:
    return storages.create(mount_path=mount_path, driver="UrlTree", modified=datetime.now(UTC), **fields)


def test_of_two_changes_that_start_from_one_addition_the_second_is_refused() -> None:
    storage = create(addition="{}")
    before = versions.get_version()
    assert storages.replace_addition(storage.id, "{}", '{"a": 1}').addition == '{"a": 1}'
    assert versions.get_version() == before + 1
    with pytest.raises(RecordConflict):
        storages.replace_addition(storage.id, "{}", '{"b": 1}')
    assert storages.get(storage.id).addition == '{"a": 1}'
    assert versions.get_version() == before + 1


def test_a_status_is_kept_and_is_no_new_configuration() -> None:
    storage = create(addition="{}", status="")
    before = versions.get_version()
    assert storages.set_status(storage.id, "work").status == "work"
    assert (storages.get(storage.id).status, storages.get(storage.id).addition) == ("work", "{}")
    assert versions.get_version() == before
    with pytest.raises(RecordNotFound):
        storages.set_status(storage.id + 1, "work")


def test_storages_come_by_order_then_id() -> None:
    for path, order in (("/c", 1), ("/a", 2), ("/b", 1), ("/d", 0)):
        create(path, order=order)
    assert [storage.mount_path for storage in storages.all()] == ["/d", "/c", "/b", "/a"]
