"""What all tables share: names, time limits, one connection, sealed attributes, and the translation of failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pynamodb.attributes import Attribute, VersionAttribute
from pynamodb.connection import Connection, TableConnection
from pynamodb.constants import BINARY
from pynamodb.exceptions import PynamoDBException
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from mangrove import runtime
from mangrove.config import config
from mangrove.problems import Problem, RecordsUnavailable
from mangrove.records.crypto import seal, unseal

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
ATTEMPTS = 5  # at a change that meets another one


class RecordMissing(Problem):
    """No such record."""

    text = "record not found"


class Conflict(Problem):
    """A condition on the record did not hold. `failed`: for each write of a transaction, whether its own did not."""

    text = "record changed meanwhile, try again"

    def __init__(self, failed: Sequence[bool] = ()) -> None:
        super().__init__()
        self.failed = failed


class NameTaken(Problem):
    """Another record has the unique name; the message is the one clients know."""


class Sealed(Attribute[str]):
    """Text that is encrypted before it leaves the process."""

    attr_type = BINARY

    def serialize(self, value: str) -> bytes:
        return seal(value)

    def deserialize(self, value: bytes) -> str:
        return unseal(value)


class TableMeta:
    """Meta of every model; the class body of a kind's `Meta` adds `table_name`."""

    connect_timeout_seconds = 2
    read_timeout_seconds = 5
    max_retry_attempts = 3
    max_pool_connections = 40


def table_name(kind: str) -> str:
    """The name of a kind's table in this deployment."""
    return f"{config().tables}-{kind}"


class Connections:
    """The one connection that all tables share, and how many calls were made of it.

    A client for each table would cost 10 MB, 40 ms and sockets of its own.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()
        self._shared: Connection | None = None
        self._tables: dict[type[Record], TableConnection] = {}

    def get(self, model: type[Record]) -> TableConnection:
        """The connection of a model's table."""
        table = self._tables.get(model)
        if table is None:
            with self._lock:
                table = self._tables.get(model) or self._connect(model)
        return table

    def _connect(self, model: type[Record]) -> TableConnection:
        table = model.make_connection()
        if self._shared is None:
            self._shared = table.connection
        else:
            self._shared.add_meta_table(table.get_meta_table())
            table.connection = self._shared
        self._tables[model] = table
        return table

    def count_call(self) -> None:
        """One more call."""
        with self._lock:
            self.calls += 1


def count_calls() -> int:
    """How many calls to the records engine this process has made."""
    return runtime.get(Connections).calls


class Record(Model):
    """Base of every model."""

    @classmethod
    def _get_connection(cls) -> TableConnection:
        return runtime.get(Connections).get(cls)

    @classmethod
    def make_connection(cls) -> TableConnection:
        """A connection as pynamodb makes it, which keeps the first one on the class."""
        cls._connection = None
        table = super()._get_connection()
        cls._connection = None
        return table


class Versioned(Record):
    """A mutable record under optimistic locking."""

    version = VersionAttribute()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Count a call; raise Conflict for a failed condition, RecordsUnavailable for any other failure of the engine."""
    runtime.get(Connections).count_call()
    try:
        yield
    except PynamoDBException as error:
        code = error.cause_response_code or ""
        if code == "TransactionCanceledException":
            reasons = getattr(error, "cancellation_reasons", ())
            raise Conflict([bool(one) and one.code == "ConditionalCheckFailed" for one in reasons]) from error
        if "ConditionalCheckFailed" in code:
            raise Conflict from error
        raise RecordsUnavailable from error


def retry_on_conflict(change: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Repeat a read-and-write that met another writer, at most ATTEMPTS times."""

    @wraps(change)
    def retry(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for attempt in range(ATTEMPTS):
            try:
                return change(*args, **kwargs)
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.01 * (attempt + 1))
        raise AssertionError("unreachable")

    return retry


def transaction(model: type[Model]) -> TransactWrite:
    """All writes made in its context happen, or none."""
    return TransactWrite(connection=get_connection(model))


def get_connection(model: type[Model]) -> Any:
    """The connection of a model's table."""
    return model._get_connection().connection
