"""The operations of a kind of record that has an integer id and a unique name, written once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields as fields_of
from typing import Any, Generic, TypeVar

from pynamodb.exceptions import DoesNotExist
from pynamodb.transactions import TransactWrite

from mangrove.core.problems import Problem, RecordNotFound
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records import versions
from mangrove.records.store import counters
from mangrove.records.store.base import (
    NameTaken,
    RecordConflict,
    Versioned,
    retry_on_conflict,
    transaction,
    translate_errors,
)
from mangrove.records.store.unique import claim, find_taken, make_name, release

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
        """One record of the table; RecordNotFound."""
        with translate_errors():
            try:
                return self.model.get(id, consistent_read=True)
            except DoesNotExist:
                raise RecordNotFound from None

    def get(self, id: int) -> Value:
        """One record; RecordNotFound."""
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
        self._save_with_names(record, self.make_names(record), [])
        return self.get(_get_id(record))

    @retry_on_conflict
    def change(self, id: int, **fields: Any) -> Value:
        """Set fields of a record; RecordNotFound, NameTaken."""
        record = self.get_record(id)
        before = self.make_names(record)
        for name, value in fields.items():
            setattr(record, name, value)
        after = self.make_names(record)
        if before == after:
            self.save(record)
        else:
            released = [name for name in self._find_own(record, before) if name not in after]
            self._save_with_names(record, [name for name in after if name not in before], released)
        return self.to_value(record)

    def save(self, record: Any) -> None:
        """Write a record whose name is as it was; RecordConflict when it changed since it was read."""
        with self._accept_own_write(record), translate_errors():
            record.save()

    @contextmanager
    def _accept_own_write(self, record: Any) -> Iterator[None]:
        """Suppress a RecordConflict with what this very write stored: the engine acted, and its answer was lost."""
        try:
            yield
        except RecordConflict:
            version = (record.version or 0) + 1
            if _read_fields(self._find(record)) != _read_fields(record) | {"version": version}:
                raise
            record.version = version
            self.note_change()

    def _find(self, record: Any) -> Any:
        """Return a record as it is stored, None when there is none."""
        with translate_errors():
            return next(iter(self.model.batch_get([_get_id(record)], consistent_read=True)), None)

    def note_change(self) -> None:
        """Have this process read anew what follows the records; nothing does here."""

    def make_names(self, record: Any) -> list[str]:
        """The names that no other record may have: the one that is `unique`, and what a kind adds."""
        return [make_name(self.name, getattr(record, self.unique))]

    def _find_own(self, record: Any, names: list[str]) -> list[str]:
        """Those of the names of a record that are no other's: there may be older records that look alike."""
        taken = find_taken(names[1:], _get_id(record)) if names[1:] else ()
        return [name for name in names if name not in taken]

    def _save_with_names(self, record: Any, claimed: list[str], released: list[str]) -> None:
        def add(write: TransactWrite) -> None:
            for name in claimed:
                claim(write, name, _get_id(record))
            for name in released:
                release(write, name)
            write.save(record)

        try:
            with self._accept_own_write(record):
                self._transact(record, add)
        except RecordConflict as conflict:
            # deletes come first in a transaction, and the record is written after its names
            others = any(conflict.failed[:-1]) and not conflict.failed[-1]
            if others or not conflict.failed:
                raise self._explain(conflict.failed[len(released) :]) from None
            raise

    def _explain(self, failed: Sequence[bool]) -> Problem:
        """Why a record cannot have its names; `failed`: the claims that did."""
        return NameTaken(self.taken)

    @retry_on_conflict
    def delete(self, id: int) -> None:
        """Remove a record and free its name; RecordNotFound."""
        record = self.get_record(id)
        names = self._find_own(record, self.make_names(record))

        def remove(write: TransactWrite) -> None:
            for name in names:
                release(write, name)
            write.delete(record)

        try:
            self._transact(record, remove)
        except RecordConflict:
            if self._find(record) is not None:
                raise
            self.note_change()

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        """Make the writes that `add` adds, which concern a record and its name; RecordConflict."""
        with translate_errors(), transaction(self.model) as write:
            add(write)


class ConfigurationRepository(Repository[Value]):
    """Records that belong to the configuration: every write of one raises its version, so that snapshots follow."""

    def save(self, record: Any) -> None:
        """As Repository; raises the configuration's version."""
        with self._accept_own_write(record):
            self._transact(record, lambda write: write.save(record))

    def note_change(self) -> None:
        """Have the next snapshot of this process follow."""
        change_counters().bump(Topic.CONFIGURATION)

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        versions.write(self.model, self.name, [_get_id(record)], add)


def _read_fields(record: Any) -> dict[str, Any]:
    return {} if record is None else {name: getattr(record, name) for name in record.get_attributes()}


def _get_id(record: Any) -> int:
    return int(record.id)
