"""Setting values, all encrypted because some are secret; `mangrove.configuration.settings` knows what a key means."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pynamodb.attributes import UnicodeAttribute
from pynamodb.transactions import TransactWrite

from mangrove.records import versions
from mangrove.records.store.base import Protected, TableMeta, table_name, translate_errors
from mangrove.records.store.integrity import Sealed, accept

KIND = "settings"
MAX_WRITES = 50  # in one transaction; DynamoDB allows 100


class SettingRecord(Protected):
    class Meta(TableMeta):
        table_name = table_name("settings")

    key = UnicodeAttribute(hash_key=True)
    value = Sealed(default="")


def all() -> dict[str, str]:
    """Every stored value by key."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.scan(consistent_read=True)}


def get_many(keys: Collection[str]) -> dict[str, str]:
    """The stored values of these keys, as far as there are such."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.batch_get(keys, consistent_read=True)}


def save(values: Mapping[str, str]) -> None:
    """Store values; up to MAX_WRITES of them at once or not at all."""
    rows = list(values.items())
    for start in range(0, len(rows), MAX_WRITES):
        _save_together(dict(rows[start : start + MAX_WRITES]))


def _save_together(values: Mapping[str, str]) -> None:
    def add(write: TransactWrite) -> None:
        for key, value in values.items():
            write.save(SettingRecord(key, value=value))

    versions.write(SettingRecord, KIND, list(values), add)


def delete(key: str) -> None:
    """Forget a key."""
    versions.write(SettingRecord, KIND, [key], lambda write: write.delete(SettingRecord(key)))
    accept(KIND, key)
