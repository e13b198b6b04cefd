"""The upgrade to version 2: seals are bound to their place, and records that grant something carry a MAC.

What is in the tables by then is believed, this once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pynamodb.constants import BINARY
from pynamodb.expressions.operand import Path
from pynamodb.models import Model

from mangrove.core.problems import Problem
from mangrove.records.accounts.sshkeys import SshKeyRecord
from mangrove.records.accounts.users import UserRecord
from mangrove.records.metas import MetaRecord
from mangrove.records.settings import SettingRecord
from mangrove.records.storages import StorageRecord
from mangrove.records.store.base import Conflict, Protected, Record, get_connection, translate_errors
from mangrove.records.store.crypto import unseal
from mangrove.records.store.integrity import MAC, Clear, Sealed, is_authentic
from mangrove.records.tasks.model import TaskRecord

PROTECTED: tuple[type[Protected], ...] = (UserRecord, StorageRecord, MetaRecord, SettingRecord, SshKeyRecord)
NOWHERE = b""  # the place that all seals were for

Item = dict[str, Any]


def protect_all() -> None:
    """Protect all records that are not protected yet."""
    for model in PROTECTED:
        for item in read_all(model):
            if not is_authentic(model.get_kind(), item):
                _protect(model, item)
    for item in read_all(TaskRecord):
        _bind_task(item)


def read_all(model: type[Record]) -> Iterator[Item]:
    """Every record of a table as the engine has it."""
    start = None
    while True:
        with translate_errors():
            page = get_connection(model).scan(model.Meta.table_name, exclusive_start_key=start, consistent_read=True)
        yield from page["Items"]
        start = page.get("LastEvaluatedKey")
        if not start:
            return


def _protect(model: type[Protected], item: Item) -> None:
    clear = {one.attr_name: {BINARY: _open(one, item)} for one in model.find_sealed(item)}
    record = Model.from_raw_data.__func__(model, item | clear)  # type: ignore[attr-defined]  # past the check of the MAC
    try:
        with translate_errors():
            record.save(condition=Path(MAC).does_not_exist())
    except Conflict:
        pass  # changed meanwhile, and protected by that


def _open(one: Sealed, item: Item) -> Clear:
    return Clear(unseal(item[one.attr_name].get(BINARY, b""), NOWHERE))


def _bind_task(item: Item) -> None:
    """Seal what a task is for its place; the rest of it may change meanwhile."""
    kind, key, spec = TaskRecord.get_kind(), TaskRecord.get_key_name(), TaskRecord.spec
    try:
        spec.open(kind, key, item)
        return
    except Problem:
        pass  # from before
    sealed = spec.seal(kind, key, item | {spec.attr_name: {BINARY: _open(spec, item)}})[BINARY]
    try:
        with translate_errors():
            TaskRecord(item[key]["S"]).update(actions=[spec.set(sealed)], condition=TaskRecord.id.exists())
    except Conflict:
        pass  # deleted meanwhile
