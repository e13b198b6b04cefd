"""Storage records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pynamodb.attributes import UnicodeAttribute

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store.base import (
    RecordConflict,
    TableMeta,
    Versioned,
    retry_on_conflict,
    table_name,
    translate_errors,
)
from mangrove.records.store.repository import ConfigurationRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A storage."""

    id: int
    mount_path: str
    order: int = 0
    driver: str
    cache_expiration: int = 0
    """In minutes."""
    custom_cache_policies: str = ""
    status: str = ""
    addition: str = ""
    """The options of the driver as JSON text; encrypted in the table."""
    remark: str = ""
    modified: datetime
    disabled: bool = False
    disable_index: bool = False
    enable_sign: bool = False
    order_by: str = ""
    order_direction: str = ""
    extract_folder: str = ""
    web_proxy: bool = False
    webdav_policy: str = ""
    proxy_range: bool = False
    down_proxy_url: str = ""
    disable_proxy_sign: bool = False


class StorageRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("storages")
        value = Storage
        encrypted = ("addition",)

    driver_state = UnicodeAttribute(default="")


TAKEN = "the mount path is taken"
KIND = "storages"
_repository = ConfigurationRepository(KIND, StorageRecord, Storage, "mount_path", TAKEN)
get, get_many, create = _repository.get, _repository.get_many, _repository.create
change, delete = _repository.change, _repository.delete


@retry_on_conflict
def replace_addition(id: int, old: str, new: str) -> Storage:
    """Set the addition if it is still `old`. Raise RecordConflict if it was changed, or RecordNotFound."""
    record = _repository.get_record(id)
    if record.addition != old:
        raise RecordConflict
    record.addition = new
    _repository.save(record)
    return _repository.to_value(record)


@retry_on_conflict
def set_status(id: int, status: str) -> Storage:
    """Store the status of the driver, which is not a part of the configuration. Raise RecordNotFound."""
    record = _repository.get_record(id)
    record.status = status
    with translate_errors():
        record.save()
    change_counters().bump(Topic.STORAGE_STATES)
    return _repository.to_value(record)


def read_driver_state(id: int) -> str:
    """Return the state that the driver of a storage shares between processes, "" at first. Raise RecordNotFound."""
    state: str = _repository.get_record(id).driver_state
    return state


@retry_on_conflict
def replace_driver_state(id: int, old: str, new: str) -> bool:
    """Set the state of the driver and return True if it is still `old`. Raise RecordNotFound."""
    record = _repository.get_record(id)
    if record.driver_state != old:
        return False
    record.driver_state = new
    with translate_errors():
        record.save()
    return True


def all() -> list[Storage]:
    """Return all storages, by order, then id."""
    return sort(_repository.all())


def sort(storages: Iterable[Storage]) -> list[Storage]:
    """Return the storages by order, then id."""
    return sorted(storages, key=lambda storage: (storage.order, storage.id))
