"""What all tables share: names, time limits, sealed attributes, and failures in our own words."""

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

from mangrove.config import config
from mangrove.problems import EngineSilent, Problem
from mangrove.records.crypto import seal, unseal

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
ROUNDS = 5  # attempts at a change that meets another one

_made = 0


def calls() -> int:
    """How many calls to the records engine this process has made."""
    return _made


class RecordMissing(Problem):
    """No such record."""

    text = "record not found"


class Conflict(Problem):
    """A condition on the record did not hold. `failed`: for each write of a transaction, whether its own did not."""

    text = "record changed meanwhile, try again"

    def __init__(self, failed: Sequence[bool] = ()) -> None:
        super().__init__()
        self.failed = failed


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


_connecting = threading.Lock()
_shared: Connection | None = None


class Record(Model):
    """Base of every model. All use one client: each of its own would cost 10 MB and 40 ms, and its own sockets."""

    @classmethod
    def _get_connection(cls) -> TableConnection:
        global _shared
        with _connecting:
            table = super()._get_connection()
            if _shared is None:
                _shared = table.connection
            elif table.connection is not _shared:
                _shared.add_meta_table(table.get_meta_table())
                table.connection = _shared
            return table


class Versioned(Record):
    """A mutable record under optimistic locking."""

    version = VersionAttribute()


@contextmanager
def told() -> Iterator[None]:
    """Engine failures as Problems: a failed condition is a Conflict, anything else says the engine is not well."""
    global _made
    _made += 1
    try:
        yield
    except PynamoDBException as error:
        code = error.cause_response_code or ""
        if code == "TransactionCanceledException":
            reasons = getattr(error, "cancellation_reasons", ())
            raise Conflict([bool(one) and one.code == "ConditionalCheckFailed" for one in reasons]) from error
        if "ConditionalCheckFailed" in code:
            raise Conflict from error
        raise EngineSilent from error


def retry_on_conflict(change: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Repeat a read-and-write that met another writer, at most ROUNDS times."""

    @wraps(change)
    def repeated(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for round_ in range(ROUNDS):
            try:
                return change(*args, **kwargs)
            except Conflict:
                if round_ == ROUNDS - 1:
                    raise
                time.sleep(0.01 * (round_ + 1))
        raise AssertionError("unreachable")

    return repeated


def transaction(model: type[Model]) -> TransactWrite:
    """All writes made in its context happen, or none."""
    return TransactWrite(connection=client(model))


def client(model: type[Model]) -> Any:
    """The connection of a model's table."""
    return model._get_connection().connection
