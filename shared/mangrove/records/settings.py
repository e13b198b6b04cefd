"""Setting values; `mangrove.site.settings` knows what a key means. All values are sealed, since some are secret."""

from __future__ import annotations

from collections.abc import Mapping

from pynamodb.attributes import UnicodeAttribute

from mangrove.records import counters
from mangrove.records.base import Record, Sealed, TableMeta, table_name, transaction, translate_errors

MAX_WRITES = 50  # in one transaction; DynamoDB allows 100


class SettingRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("settings")

    key = UnicodeAttribute(hash_key=True)
    value = Sealed(default="")


def all() -> dict[str, str]:
    """Every stored value by key."""
    with translate_errors():
        return {record.key: record.value for record in SettingRecord.scan(consistent_read=True)}


def save(values: Mapping[str, str]) -> None:
    """Store values; up to MAX_WRITES of them at once or not at all."""
    rows = list(values.items())
    for start in range(0, len(rows), MAX_WRITES):
        with translate_errors(), transaction(SettingRecord) as write:
            for key, value in rows[start : start + MAX_WRITES]:
                write.save(SettingRecord(key, value=value))
    if rows:
        counters.bump_configuration()


def delete(key: str) -> None:
    """Forget a key."""
    with translate_errors():
        SettingRecord(key).delete()
    counters.bump_configuration()
