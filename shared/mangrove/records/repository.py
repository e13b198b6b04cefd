"""The operations of a kind of record that has an integer id and a unique name, written once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields as fields_of
from typing import Any, Generic, TypeVar

from pynamodb.exceptions import DoesNotExist
from pynamodb.transactions import TransactWrite

from mangrove.records import configuration, counters
from mangrove.records.base import (
    Conflict,
    NameTaken,
    RecordMissing,
    Versioned,
    retry_on_conflict,
    transaction,
    translate_errors,
)
from mangrove.records.unique import claim, release

Value = TypeVar("Value")


class Repository(Generic[Value]):
    """Records of one table as values of one dataclass.

    `unique` is the field whose value no two records may share, `taken` what NameTaken says when they would.
    """

    def __init__(self, name: str, model: type[Versioned], value: type[Value], unique: str, taken: str) -> None:
        self.name = name
        self.model = model
        self.value = value
        self.unique = unique
        self.taken = taken
        self._fields = [field.name for field in fields_of(value)]  # type: ignore[arg-type]

    def to_value(self, record: Any) -> Value:
        """A record of the table as a value."""
        return self.value(**{name: getattr(record, name) for name in self._fields})

    def all(self) -> list[Value]:
        """Every record, by id."""
        with translate_errors():
            return [self.to_value(record) for record in sorted(self.model.scan(consistent_read=True), key=_get_id)]

    def get_record(self, id: int) -> Any:
        """One record of the table; RecordMissing."""
        with translate_errors():
            try:
                return self.model.get(id, consistent_read=True)
            except DoesNotExist:
                raise RecordMissing from None

    def get(self, id: int) -> Value:
        """One record; RecordMissing."""
        return self.to_value(self.get_record(id))

    def get_many(self, ids: Collection[int]) -> dict[int, Value]:
        """The records of these ids, as far as there are such."""
        with translate_errors():
            return {
                _get_id(record): self.to_value(record) for record in self.model.batch_get(ids, consistent_read=True)
            }

    @retry_on_conflict
    def create(self, **fields: Any) -> Value:
        """A new record with the next id; NameTaken."""
        record = self.model(counters.next_id(self.name), **fields)
        self._save_with_name(record, lambda write: claim(write, self.name, fields[self.unique], _get_id(record)))
        return self.get(_get_id(record))

    @retry_on_conflict
    def change(self, id: int, **fields: Any) -> Value:
        """Set fields of a record; RecordMissing, NameTaken."""
        record = self.get_record(id)
        before = getattr(record, self.unique)
        for name, value in fields.items():
            setattr(record, name, value)
        after = getattr(record, self.unique)
        if before == after:
            self.save(record)
        else:
            self._rename(record, before, after)
        return self.to_value(record)

    def save(self, record: Any) -> None:
        """Write a record whose name is as it was; Conflict when it changed since it was read."""
        with translate_errors():
            record.save()

    def _rename(self, record: Any, before: str, after: str) -> None:
        def replace_name(write: TransactWrite) -> None:
            release(write, self.name, before)
            claim(write, self.name, after, _get_id(record))

        self._save_with_name(record, replace_name)

    def _save_with_name(self, record: Any, write_names: Callable[[TransactWrite], None]) -> None:
        def add(write: TransactWrite) -> None:
            write_names(write)
            write.save(record)

        try:
            self._transact(record, add)
        except Conflict as conflict:
            others = any(conflict.failed[:-1]) and not conflict.failed[-1]  # the record is written after its name
            if others or not conflict.failed:
                raise NameTaken(self.taken) from None
            raise

    @retry_on_conflict
    def delete(self, id: int) -> None:
        """Remove a record and free its name; RecordMissing."""
        record = self.get_record(id)

        def remove(write: TransactWrite) -> None:
            release(write, self.name, getattr(record, self.unique))
            write.delete(record)

        self._transact(record, remove)

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        """Make the writes that `add` adds, which concern a record and its name; Conflict."""
        with translate_errors(), transaction(self.model) as write:
            add(write)


class ConfigurationRepository(Repository[Value]):
    """Records that belong to the configuration: every write of one raises its version, so that snapshots follow."""

    def save(self, record: Any) -> None:
        """As Repository; raises the configuration's version."""
        self._transact(record, lambda write: write.save(record))

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        configuration.write(self.model, self.name, [_get_id(record)], add)


def _get_id(record: Any) -> int:
    return int(record.id)
