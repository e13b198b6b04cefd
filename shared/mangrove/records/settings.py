"""The values of settings. All are encrypted, since some are secret; those that everybody may see are stored in the
clear too, for functions that do not have the key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pynamodb.attributes import UnicodeAttribute
from pynamodb.transactions import TransactWrite

from mangrove.records.store import versions
from mangrove.records.store.base import Protected, TableMeta, connections, table_name, translate_errors
from mangrove.records.store.encryption import EncryptedAttribute

KIND = "settings"
MAX_WRITES_PER_TRANSACTION = 50  # DynamoDB allows 100


class SettingRecord(Protected):
    class Meta(TableMeta):
        table_name = table_name("settings")

    key = UnicodeAttribute(hash_key=True)
    value = EncryptedAttribute(default="")
    text = UnicodeAttribute(null=True)  # the value in the clear, of a setting that everybody may see


class VisibleSettingRecord(Protected):
    """A setting as a process without the key of encryption reads it."""

    class Meta(TableMeta):
        table_name = table_name("settings")

    key = UnicodeAttribute(hash_key=True)
    text = UnicodeAttribute(null=True)


def all() -> dict[str, str]:
    """Return all stored values by key."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.scan(consistent_read=True)}


def get_many(keys: Collection[str]) -> dict[str, str]:
    """Return the stored values of these keys. Missing keys are left out."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.batch_get(keys, consistent_read=True)}


def all_visible() -> dict[str, str]:
    """Return the stored values that are in the clear, by key."""
    with translate_errors():
        return _select_visible(VisibleSettingRecord.scan(consistent_read=True))


def get_many_visible(keys: Collection[str]) -> dict[str, str]:
    """Return the stored values of these keys that are in the clear."""
    with translate_errors():
        return _select_visible(VisibleSettingRecord.batch_get(keys, consistent_read=True))


def _select_visible(records: Iterable[VisibleSettingRecord]) -> dict[str, str]:
    return {record.key: record.text for record in records if record.text is not None}


def save(values: Mapping[str, str], visible: Collection[str] = ()) -> None:
    """Store values, MAX_WRITES_PER_TRANSACTION per transaction; those of the keys `visible` in the clear too."""
    rows = list(values.items())
    for start in range(0, len(rows), MAX_WRITES_PER_TRANSACTION):
        _save_together(dict(rows[start : start + MAX_WRITES_PER_TRANSACTION]), visible)


def _save_together(values: Mapping[str, str], visible: Collection[str]) -> None:
    def add(write: TransactWrite) -> None:
        for key, value in values.items():
            write.save(SettingRecord(key, value=value, text=value if key in visible else None))

    versions.write(SettingRecord, KIND, list(values), add)


def delete(key: str) -> None:
    """Delete the value of a key."""
    versions.write(SettingRecord, KIND, [key], lambda write: write.delete(SettingRecord(key)))
    connections().refused.remove(KIND, key)
