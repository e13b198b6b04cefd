"""The four operations of a kind of record that has an integer id and a unique name, written once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as fields_of
from typing import Any, Generic, TypeVar

from pynamodb.exceptions import DoesNotExist

from mangrove.problems import Problem
from mangrove.records import counters
from mangrove.records.base import Conflict, RecordMissing, Versioned, retry_on_conflict, told, transaction
from mangrove.records.unique import claim, release

Value = TypeVar("Value")


class Repository(Generic[Value]):
    """Records of one table as values of one dataclass. `unique` is the field whose value no two may share."""

    def __init__(self, name: str, model: type[Versioned], value: type[Value], unique: str, taken: str) -> None:
        self.name = name
        self.model = model
        self.value = value
        self.unique = unique
        self.taken = taken
        self._fields = [field.name for field in fields_of(value)]  # type: ignore[arg-type]

    def value_of(self, record: Any) -> Value:
        """A record of the table as a value."""
        return self.value(**{name: getattr(record, name) for name in self._fields})

    def all(self) -> list[Value]:
        """Every record, by id."""
        with told():
            return [self.value_of(record) for record in sorted(self.model.scan(consistent_read=True), key=_id)]

    def record(self, id: int) -> Any:
        """One record of the table; RecordMissing."""
        with told():
            try:
                return self.model.get(id, consistent_read=True)
            except DoesNotExist:
                raise RecordMissing from None

    def get(self, id: int) -> Value:
        """One record; RecordMissing."""
        return self.value_of(self.record(id))

    @retry_on_conflict
    def create(self, **fields: Any) -> Value:
        """A new record with the next id; Problem when its unique name is taken."""
        record = self.model(counters.next_id(self.name), **fields)
        self._claimed(lambda write: claim(write, self.name, fields[self.unique], _id(record)), record)
        return self.get(_id(record))

    @retry_on_conflict
    def change(self, id: int, **fields: Any) -> Value:
        """Set fields of a record; RecordMissing, or Problem when its new unique name is taken."""
        record = self.record(id)
        before = getattr(record, self.unique)
        for name, value in fields.items():
            setattr(record, name, value)
        after = getattr(record, self.unique)
        if before == after:
            with told():
                record.save()
        else:
            self._moved(record, before, after)
        return self.value_of(record)

    def _moved(self, record: Any, before: str, after: str) -> None:
        def names(write: Any) -> None:
            release(write, self.name, before)
            claim(write, self.name, after, _id(record))

        self._claimed(names, record)

    def _claimed(self, names: Callable[[Any], None], record: Any) -> None:
        try:
            with told(), transaction(self.model) as write:
                names(write)
                write.save(record)
        except Conflict as conflict:
            others = any(conflict.failed[:-1]) and not conflict.failed[-1]  # the record is written after its name
            if others or not conflict.failed:
                raise Problem(self.taken) from None
            raise

    @retry_on_conflict
    def delete(self, id: int) -> None:
        """Remove a record and free its name; RecordMissing."""
        record = self.record(id)
        with told(), transaction(self.model) as write:
            release(write, self.name, getattr(record, self.unique))
            write.delete(record)


def _id(record: Any) -> int:
    return int(record.id)
