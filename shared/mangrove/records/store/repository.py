"""Records with an integer id and unique names: their operations, and the names, which conditions keep unique."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields as fields_of
from typing import Any, Generic, TypeVar

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.transactions import TransactWrite

from mangrove.core.problems import BadRequest, Problem, RecordNotFound
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store import counters, versions
from mangrove.records.store.base import (
    NameTaken,
    Record,
    RecordConflict,
    TableMeta,
    Versioned,
    retry_on_conflict,
    table_name,
    transaction,
    translate_errors,
)

Value = TypeVar("Value")
MAX_NAME_KEY_BYTES = 2048


class Claim(Record):
    """The claim of a record to a name."""

    class Meta(TableMeta):
        table_name = table_name("names")

    name = UnicodeAttribute(hash_key=True)  # `<kind>#<text>`
    owner = NumberAttribute()  # the id of the record


def make_name(kind: str, text: str) -> str:
    """Return the name of a claim. Raise BadRequest if it is too long."""
    name = f"{kind}#{text}"
    if len(name.encode()) > MAX_NAME_KEY_BYTES:
        raise BadRequest("the name or path is too long")
    return name


def claim(write: TransactWrite, name: str, owner: int) -> None:
    """Claim a name in a transaction, which fails as a whole if the name is taken."""
    write.save(Claim(name, owner=owner), condition=Claim.name.does_not_exist())


def release(write: TransactWrite, name: str) -> None:
    """Release a name in a transaction."""
    write.delete(Claim(name))


def find_owner(name: str) -> int | None:
    """Return the id of the record that has a name, None if there is none."""
    stored = Claim.find(name)
    return None if stored is None else int(stored.owner)


def find_taken(names: Collection[str], owner: int) -> set[str]:
    """Return the names that belong to records other than `owner`."""
    with translate_errors():
        return {claim.name for claim in Claim.batch_get(names, consistent_read=True) if claim.owner != owner}


class Repository(Generic[Value]):
    """Records of one table as values of one dataclass."""

    def __init__(
        self,
        name: str,
        model: type[Versioned],
        value: type[Value],
        unique: str,  # the field whose value is unique
        taken: str,  # the message of NameTaken
    ) -> None:
        self.name = name
        self.model = model
        self.value = value
        self.unique = unique
        self.taken = taken
        self._fields = [field.name for field in fields_of(value)]  # type: ignore[arg-type]

    def to_value(self, record: Any) -> Value:
        """Return the value of a record."""
        return self.value(**{name: getattr(record, name) for name in self._fields})

    def all(self) -> list[Value]:
        """Return all values, by id."""
        with translate_errors():
            return [self.to_value(record) for record in sorted(self.model.scan(consistent_read=True), key=_get_id)]

    def get_record(self, id: int) -> Any:
        """Return a record. Raise RecordNotFound."""
        record = self.model.find(id)
        if record is None:
            raise RecordNotFound
        return record

    def get(self, id: int) -> Value:
        """Return the value of an id. Raise RecordNotFound."""
        return self.to_value(self.get_record(id))

    def get_many(self, ids: Collection[int]) -> dict[int, Value]:
        """Return the values of these ids, without those that do not exist."""
        with translate_errors():
            return {
                _get_id(record): self.to_value(record) for record in self.model.batch_get(ids, consistent_read=True)
            }

    @retry_on_conflict
    def create(self, **fields: Any) -> Value:
        """Create a record with the next id. Raise NameTaken."""
        record = self.model(counters.next_id(self.name), **fields)
        self._save_with_names(record, self.make_names(record), [])
        return self.get(_get_id(record))

    @retry_on_conflict
    def change(self, id: int, **fields: Any) -> Value:
        """Set fields of a record. Raise RecordNotFound or NameTaken."""
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
        """Save a record whose name did not change. Raise RecordConflict if it was changed since it was read."""
        with self._accept_own_write(record), translate_errors():
            record.save()

    @contextmanager
    def _accept_own_write(self, record: Any) -> Iterator[None]:
        """Suppress a RecordConflict that was caused by this write itself: the engine did it, and its answer was
        lost.
        """
        try:
            yield
        except RecordConflict:
            version = (record.version or 0) + 1
            if _read_fields(self._find(record)) != _read_fields(record) | {"version": version}:
                raise
            record.version = version
            self.bump()

    def _find(self, record: Any) -> Any:
        """Return the stored record, None if there is none."""
        with translate_errors():
            return next(iter(self.model.batch_get([_get_id(record)], consistent_read=True)), None)

    def bump(self) -> None:
        """Count a change for the caches of this process, if there are any."""

    def make_names(self, record: Any) -> list[str]:
        """Return the names that no other record may have: the `unique` one, and those that a subclass adds."""
        return [make_name(self.name, getattr(record, self.unique))]

    def _find_own(self, record: Any, names: list[str]) -> list[str]:
        """Return the names that belong to the record: an older record may have one that looks alike."""
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
            # a transaction has deletes first, and the record after its names
            others = any(conflict.failed[:-1]) and not conflict.failed[-1]
            if others or not conflict.failed:
                raise self._explain(conflict.failed[len(released) :]) from None
            raise

    def _explain(self, failed: Sequence[bool]) -> Problem:
        """Return the reason why a record cannot have its names; `failed` has an element per claim."""
        return NameTaken(self.taken)

    @retry_on_conflict
    def delete(self, id: int) -> None:
        """Delete a record and release its names. Raise RecordNotFound."""
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
            self.bump()

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        """Do the writes that `add` adds, of a record and its names. Raise RecordConflict."""
        with translate_errors(), transaction(self.model) as write:
            add(write)


class ConfigurationRepository(Repository[Value]):
    """Records of the configuration: each write raises its version, so that snapshots follow."""

    def save(self, record: Any) -> None:
        """Save a record as Repository does, and increment the version of the configuration."""
        with self._accept_own_write(record):
            self._transact(record, lambda write: write.save(record))

    def bump(self) -> None:
        """Count a change of the configuration."""
        change_counters().bump(Topic.CONFIGURATION)

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        versions.write(self.model, self.name, [_get_id(record)], add)


def _read_fields(record: Any) -> dict[str, Any]:
    return {} if record is None else {name: getattr(record, name) for name in record.get_attributes()}


def _get_id(record: Any) -> int:
    return int(record.id)
