"""The base of all tables: names, timeouts, the connection, protected records, and the translation of failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.attributes import Attribute, VersionAttribute
from pynamodb.connection import Connection, TableConnection
from pynamodb.constants import BINARY
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Condition
from pynamodb.models import MetaProtocol, Model
from pynamodb.transactions import TransactWrite

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.metrics import ENGINE_CALLS, ENGINE_SECONDS
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordsThrottled, RecordsUnavailable
from mangrove.core.shared_memory import metrics
from mangrove.core.telemetry import log_warning, open_span
from mangrove.records.store.attributes import add_attributes
from mangrove.records.store.call_format import THROTTLED_CODES
from mangrove.records.store.clients import connect
from mangrove.records.store.encryption import (
    MAC,
    EncryptedAttribute,
    Item,
    RefusedRecords,
    check_numbers,
    compute_mac,
    describe_key,
    is_authentic,
)

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
THROTTLED = ("ThrottlingError", "ProvisionedThroughputExceeded")  # reasons of a cancelled transaction
MISCONFIGURED = ("ResourceNotFoundException", "AccessDeniedException", "UnrecognizedClientException")
DATA_DISK_FULL = "the data disk is full"
MAX_ATTEMPTS = 5  # of a change that conflicts with another one


class RecordConflict(Problem):
    """A condition on the record was false."""

    text = "record changed meanwhile, try again"

    def __init__(self, failed: Sequence[bool] = ()) -> None:
        super().__init__()
        self.failed = failed
        """For each write of a transaction: True if its own condition was false."""


class RecordRefused(Problem):
    """The engine refuses such a record in any case: it is too large or not well-formed."""

    text = "the record is too large or not well-formed"


class NameTaken(Problem):
    """Another record has the unique name."""


class TableMeta:
    """The base of the Meta of each model, which adds `table_name`."""

    connect_timeout_seconds = 2
    read_timeout_seconds = 5
    max_retry_attempts = 7  # after 25 ms, then doubled: enough for a restart of the engine
    max_pool_connections = 40
    value: type | None = None  # the dataclass of a model whose attributes are the fields of one
    encrypted: Sequence[str] = ()  # those of its fields that are encrypted


class TableName(str):
    """Return the name of a table in this deployment."""

    __slots__ = ("kind",)
    kind: str
    """Return the name of the table without that of the deployment."""


def table_name(kind: str) -> TableName:
    """Return the name of a table in this deployment. Raise ValueError if the environment lists tables without it."""
    tables = config().tables
    names = dict(pair.split("=", 1) for pair in tables.split(",")) if "=" in tables else {kind: f"{tables}-{kind}"}
    if kind not in names:
        raise ValueError(f"MANGROVE_TABLES names no table of {kind}")
    name = TableName(names[kind])
    name.kind = kind
    return name


class Connections:
    """The connection that all tables share, with the number of its calls and the records that were refused.

    A client per table would cost 10 MB, 40 ms and its own sockets.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.refused = RefusedRecords()
        self._lock = threading.Lock()
        self._shared: Connection | None = None
        self._tables: dict[type[Record], TableConnection] = {}

    def get(self, model: type[Record]) -> TableConnection:
        """Return the connection of the table of a model."""
        table = self._tables.get(model)
        if table is None:
            with self._lock:
                table = self._tables.get(model) or self._connect(model)
        return table

    def _connect(self, model: type[Record]) -> TableConnection:
        table = model.make_connection()
        if self._shared is None:
            self._shared = table.connection
            connect(table.connection, lambda: model.make_connection().connection)
        else:
            if all(other.Meta.table_name != model.Meta.table_name for other in self._tables):
                self._shared.add_meta_table(table.get_meta_table())
            table.connection = self._shared
        self._tables[model] = table
        return table

    def count_call(self) -> None:
        """Count a call."""
        with self._lock:
            self.calls += 1


def connections() -> Connections:
    """Return the connection of this process to the records engine."""
    return runtime.get(Connections)


def count_calls() -> int:
    """Return the number of calls of this process to the records engine."""
    return connections().calls


class _RecordMeta(MetaProtocol, Protocol):
    table_name: TableName
    value: type | None
    encrypted: Sequence[str]


class Record(Model):
    """The base of every model."""

    Meta: _RecordMeta

    @classmethod
    def _get_connection(cls) -> TableConnection:
        return connections().get(cls)

    @classmethod
    def make_connection(cls) -> TableConnection:
        """Return a new connection, as pynamodb makes it for the first use of the class."""
        cls._connection = None
        table = super()._get_connection()
        cls._connection = None
        return table

    @classmethod
    def find(cls, hash_key: Any, range_key: Any = None) -> Self | None:
        """Return the record of a key, None if there is none."""
        with translate_errors():
            try:
                return cls.get(hash_key, range_key, consistent_read=True)
            except cls.DoesNotExist:
                return None

    @classmethod
    def get_kind(cls) -> str:
        """Return the kind of the table, which is part of the context of encryption."""
        return cls.Meta.table_name.kind

    @classmethod
    def get_key_name(cls) -> str:
        """Return the name of the key."""
        return cls._get_key_attribute().attr_name

    @classmethod
    def _get_key_attribute(cls) -> Attribute[Any]:
        return cls.get_attributes()[str(cls._hash_keyname)]

    @classmethod
    def find_encrypted(cls, item: Item) -> list[EncryptedAttribute]:
        """Return the encrypted attributes that a record has."""
        return [
            attribute
            for attribute in cls.get_attributes().values()
            if isinstance(attribute, EncryptedAttribute) and attribute.attr_name in item
        ]

    def serialize(self, null_check: bool = True) -> dict[str, dict[str, Any]]:
        """Return the record as the engine stores it, with its secrets encrypted."""
        item, kind, key = super().serialize(null_check), self.get_kind(), self.get_key_name()
        return item | {
            attribute.attr_name: attribute.encrypt(kind, key, item) for attribute in self.find_encrypted(item)
        }

    def deserialize(self, attribute_values: dict[str, dict[str, Any]]) -> None:
        """Read the answer of the engine. Raise DecryptionError for a secret that was copied from another place."""
        super().deserialize(self._decrypt(attribute_values))

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Any:
        """Return the record of an answer. Raise DecryptionError for a secret that was copied from another place."""
        return super().from_raw_data(cls._decrypt(data))

    @classmethod
    def _decrypt(cls, item: dict[str, Any]) -> dict[str, Any]:
        kind, key = cls.get_kind(), cls.get_key_name()
        return item | {
            attribute.attr_name: attribute.decrypt(kind, key, item) for attribute in cls.find_encrypted(item)
        }


class Protected(Record):
    """A record that grants rights and therefore has a MAC. A record that another program changed counts as missing and
    is logged.

    A record is saved as a whole: an update of some attributes would not update the MAC.
    """

    def _get_save_args(
        self, condition: Condition | None = None, *, add_version_condition: bool = True
    ) -> tuple[Any, dict[str, Any]]:
        keys, options = super()._get_save_args(condition, add_version_condition=add_version_condition)
        key = self._get_key_attribute()
        item = {**options["attributes"], key.attr_name: {key.attr_type: next(iter(keys))}}
        check_numbers(item)
        options["attributes"][MAC] = {BINARY: compute_mac(self.get_kind(), item)}
        return keys, options

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Any:
        """Return the record of an answer, None if it is refused."""
        kind, key = cls.get_kind(), describe_key(data[cls.get_key_name()])
        if not is_authentic(kind, data):
            connections().refused.add(kind, key)
            return None
        connections().refused.remove(kind, key)
        return super().from_raw_data(data)

    @classmethod
    def get(cls, *args: Any, **options: Any) -> Any:
        record = super().get(*args, **options)
        if record is None:
            raise cls.DoesNotExist
        return record

    @classmethod
    def scan(cls, *args: Any, **options: Any) -> Iterator[Any]:  # type: ignore[override]  # without the counts of a page
        return (record for record in super().scan(*args, **options) if record is not None)

    @classmethod
    def batch_get(cls, *args: Any, **options: Any) -> Iterator[Any]:
        return (record for record in super().batch_get(*args, **options) if record is not None)

    def deserialize(self, attribute_values: dict[str, dict[str, Any]]) -> None:
        raise TypeError("a protected record is read again")

    def update(self, *args: Any, **options: Any) -> Any:
        raise TypeError("a protected record is saved as a whole")

    def get_update_kwargs_from_instance(self, *args: Any, **options: Any) -> Any:
        raise TypeError("a protected record is saved as a whole")


class Versioned(Protected):
    """A record that is changed under optimistic locking."""

    version = VersionAttribute()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.Meta.value is not None:
            add_attributes(cls, cls.Meta.value, cls.Meta.encrypted)


def delete_expired(model: Any) -> None:
    """Delete the expired records of a table. DynamoDB does it itself, the engine of the standalone service does not."""
    ended = model.expires < datetime.now(UTC)
    with translate_errors():
        for record in model.scan(ended):
            try:
                with translate_errors():
                    record.delete(condition=ended)
            except RecordConflict:
                pass  # it was written again


@contextmanager
def translate_errors() -> Iterator[None]:
    """Count a call and translate its failure: RecordConflict for a failed condition, RecordRefused for a record
    that the engine refuses in any case, RecordsThrottled, otherwise RecordsUnavailable.
    """
    connections().count_call()
    began, result = time.perf_counter(), "failed"
    try:
        with open_span("records"):
            yield
        result = "ok"
    except (BotoCoreError, ClientError) as error:  # before the library wraps it
        raise make_unavailable() from error
    except PynamoDBException as error:
        code = _find_code(error)
        if code == "TransactionCanceledException":
            reasons = getattr(error, "cancellation_reasons", ())
            if any(reason and reason.code in THROTTLED for reason in reasons):
                raise RecordsThrottled from error
            if any(reason and reason.code == "ValidationError" for reason in reasons):
                raise RecordRefused from error
            failed = [bool(reason) and reason.code == "ConditionalCheckFailed" for reason in reasons]
            raise RecordConflict(failed) from error
        if "ConditionalCheckFailed" in code:
            raise RecordConflict from error
        if code == "ValidationException":
            raise RecordRefused from error
        if code in THROTTLED_CODES:
            raise RecordsThrottled from error
        if code in MISCONFIGURED:  # a retry does not help: the operator has to be informed
            log_warning("records engine refuses the service", code=code, reason=error.cause_response_message)
        raise make_unavailable() from error
    finally:
        metrics().count(ENGINE_CALLS, result)
        metrics().observe(ENGINE_SECONDS, time.perf_counter() - began)


def make_unavailable() -> RecordsUnavailable:
    """Return the problem of a failed call; its message names a full disk if that is the reason."""
    return RecordsUnavailable(DATA_DISK_FULL) if platform().is_data_disk_full() else RecordsUnavailable()


def _find_code(error: PynamoDBException) -> str:
    """Return the code of a failure in the answer of the engine, "" without one.

    The library's `cause_response_code` raises if there was no answer.
    """
    response = getattr(error.cause, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def retry_on_conflict(change: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Repeat a function that reads and writes if it conflicts with other writers, at most MAX_ATTEMPTS times."""

    @wraps(change)
    def retry(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return change(*args, **kwargs)
            except RecordConflict:
                if attempt == MAX_ATTEMPTS - 1:
                    raise
                time.sleep(0.01 * (attempt + 1))
        raise AssertionError("unreachable")

    return retry


def transaction(model: type[Model]) -> TransactWrite:
    """Return a context in which all writes are done, or none."""
    return TransactWrite(connection=get_connection(model))


def get_connection(model: type[Model]) -> Any:
    """Return the connection of the table of a model."""
    return model._get_connection().connection


def query_index(
    model: type[Record], index: str, key: str, attributes: list[str], start: Any = None, page_size: int | None = None
) -> Iterator[Item]:
    """Yield the rows of a key of an index behind the last key `start`, `page_size` per call. They are not made into
    models, which would cost more than the rows."""
    while True:
        with translate_errors():
            page = get_connection(model).query(
                model.Meta.table_name, key, index_name=index, attributes_to_get=attributes, exclusive_start_key=start,
                limit=page_size,
            )  # fmt: skip
        yield from page["Items"]
        start = page.get("LastEvaluatedKey")
        if not start:
            return
