"""The values of settings. All are encrypted, since some are secret."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pynamodb.attributes import UnicodeAttribute
from pynamodb.transactions import TransactWrite

from mangrove.records.store import versions
from mangrove.records.store.base import Protected, TableMeta, table_name, translate_errors
from mangrove.records.store.encryption import EncryptedAttribute, refused_records

KIND = "settings"
MAX_WRITES_PER_TRANSACTION = 50  # DynamoDB allows 100


class SettingRecord(Protected):
    class Meta(TableMeta):
        table_name = table_name("settings")

    key = UnicodeAttribute(hash_key=True)
    value = EncryptedAttribute(default="")


def all() -> dict[str, str]:
    """Return all stored values by key."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.scan(consistent_read=True)}


def get_many(keys: Collection[str]) -> dict[str, str]:
    """Return the stored values of these keys. Missing keys are left out."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.batch_get(keys, consistent_read=True)}


def save(values: Mapping[str, str]) -> None:
    """Store values, MAX_WRITES_PER_TRANSACTION per transaction."""
    rows = list(values.items())
    for start in range(0, len(rows), MAX_WRITES_PER_TRANSACTION):
        _save_together(dict(rows[start : start + MAX_WRITES_PER_TRANSACTION]))


def _save_together(values: Mapping[str, str]) -> None:
    def add(write: TransactWrite) -> None:
        for key, value in values.items():
            write.save(SettingRecord(key, value=value))

    versions.write(SettingRecord, KIND, list(values), add)


def delete(key: str) -> None:
    """Delete the value of a key."""
    versions.write(SettingRecord, KIND, [key], lambda write: write.delete(SettingRecord(key)))
    refused_records().remove(KIND, key)
