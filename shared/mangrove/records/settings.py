"""Setting values; what a key means is known in `mangrove.site.settings`. All values are sealed, some are secret."""

from __future__ import annotations

from collections.abc import Mapping

from pynamodb.attributes import UnicodeAttribute

from mangrove.records.base import Record, Sealed, TableMeta, table_name, told, transaction

IN_ONE = 50  # writes in one transaction; DynamoDB allows 100


class SettingRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("settings")

    key = UnicodeAttribute(hash_key=True)
    value = Sealed(default="")


def all() -> dict[str, str]:
    """Every stored value by key."""
    with told():
        return {record.key: record.value for record in SettingRecord.scan(consistent_read=True)}


def save(values: Mapping[str, str]) -> None:
    """Store values; up to IN_ONE of them at once or not at all."""
    rows = list(values.items())
    for start in range(0, len(rows), IN_ONE):
        with told(), transaction(SettingRecord) as write:
            for key, value in rows[start : start + IN_ONE]:
                write.save(SettingRecord(key, value=value))


def delete(key: str) -> None:
    """Forget a key."""
    with told():
        SettingRecord(key).delete()
