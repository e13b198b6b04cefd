"""What all tables share: names, time limits, one connection, sealed attributes, and the translation of failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError
from pynamodb.attributes import Attribute, VersionAttribute
from pynamodb.connection import Connection, TableConnection
from pynamodb.connection.base import BOTOCORE_EXCEPTIONS
from pynamodb.constants import BINARY, STRING
from pynamodb.exceptions import GetError, PynamoDBException
from pynamodb.expressions.condition import Condition
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.config import config
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordsThrottled, RecordsUnavailable
from mangrove.core.telemetry import log_warning
from mangrove.records.store.endpoints import use_socket
from mangrove.records.store.integrity import (
    MAC,
    Item,
    Sealed,
    accept,
    check_numbers,
    compute_mac,
    describe_key,
    is_authentic,
    refuse,
)

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
THROTTLED = ("ThrottlingError", "ProvisionedThroughputExceeded")  # of a write in a transaction
THROTTLES = ("ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded")
MISCONFIGURED = ("ResourceNotFoundException", "AccessDeniedException", "UnrecognizedClientException")
DATA_DISK_FULL = "the data disk is full"
ATTEMPTS = 5  # at a change that meets another one


class RecordConflict(Problem):
    """A condition on the record did not hold. `failed`: for each write of a transaction, whether its own did not."""

    text = "record changed meanwhile, try again"

    def __init__(self, failed: Sequence[bool] = ()) -> None:
        super().__init__()
        self.failed = failed


class RecordRefused(Problem):
    """The engine takes no such record, however often it is asked."""

    text = "the record is too large or not well-formed"


class NameTaken(Problem):
    """Another record has the unique name; the message is the one clients know."""


class TableMeta:
    """Meta of every model; the class body of a kind's `Meta` adds `table_name`."""

    connect_timeout_seconds = 2
    read_timeout_seconds = 5
    max_retry_attempts = 7  # botocore waits 25 ms, then twice as long each time: an engine is started again meanwhile
    max_pool_connections = 40


class TableName(str):
    """The name of a table in this deployment. `kind`: what it keeps, which is the same in every deployment."""

    __slots__ = ("kind",)
    kind: str


def table_name(kind: str) -> TableName:
    """The name of a kind's table in this deployment; ValueError when the environment names tables but not this one."""
    tables = config().tables
    names = dict(pair.split("=", 1) for pair in tables.split(",")) if "=" in tables else {kind: f"{tables}-{kind}"}
    if kind not in names:
        raise ValueError(f"MANGROVE_TABLES names no table of {kind}")
    name = TableName(names[kind])
    name.kind = kind
    return name


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
            table.connection._local.session = runtime.get(AwsSession)  # not one of its own
            use_socket(table.connection.client, config().records_socket)
            _refuse_short_answers(table.connection)
        else:
            if all(known.Meta.table_name != model.Meta.table_name for known in self._tables):
                self._shared.add_meta_table(table.get_meta_table())
            table.connection = self._shared
        self._tables[model] = table
        return table

    def count_call(self) -> None:
        """One more call."""
        with self._lock:
            self.calls += 1


def _refuse_short_answers(connection: Connection) -> None:
    """Have an answer that broke off sent again: botocore takes it for a whole one, in which there are no records."""
    session = connection.client._endpoint.http_session

    def send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        answer: AWSResponse = session.send(request)
        length = answer.headers.get("content-length")
        if length is not None and int(length) != len(answer.content):
            raise ConnectionClosedError(endpoint_url=request.url)
        return answer

    connection.client.meta.events.register("before-send.dynamodb", send)


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

    @classmethod
    def get_kind(cls) -> str:
        """What the table keeps, by which its records are sealed."""
        name = cls.Meta.table_name
        assert isinstance(name, TableName)
        return name.kind

    @classmethod
    def get_key_name(cls) -> str:
        """The attribute that is the key."""
        return cls._get_key_attribute().attr_name

    @classmethod
    def _get_key_attribute(cls) -> Attribute[Any]:
        return cls.get_attributes()[str(cls._hash_keyname)]

    @classmethod
    def find_sealed(cls, item: Item) -> list[Sealed]:
        """The attributes of a record that are sealed, as far as it has them."""
        return [one for one in cls.get_attributes().values() if isinstance(one, Sealed) and one.attr_name in item]

    def serialize(self, null_check: bool = True) -> dict[str, dict[str, Any]]:
        """The record as the engine has it, its secrets sealed."""
        item, kind, key = super().serialize(null_check), self.get_kind(), self.get_key_name()
        return item | {one.attr_name: one.seal(kind, key, item) for one in self.find_sealed(item)}

    def deserialize(self, attribute_values: dict[str, dict[str, Any]]) -> None:
        """Take over what the engine answered; Problem for a secret that was sealed for another place."""
        super().deserialize(self._open(attribute_values))

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Any:
        """The record that the engine answered; Problem for a secret that was sealed for another place."""
        return super().from_raw_data(cls._open(data))

    @classmethod
    def _open(cls, item: dict[str, Any]) -> dict[str, Any]:
        kind, key = cls.get_kind(), cls.get_key_name()
        return item | {one.attr_name: one.open(kind, key, item) for one in cls.find_sealed(item)}


class Protected(Record):
    """A record that grants something: it carries a MAC.

    One that is not as it was saved counts as missing wherever it is read, and the log names it. It is saved as a whole:
    an update of some attributes would leave the MAC as it was.
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
        """The record that the engine answered, None when it is refused."""
        kind, key = cls.get_kind(), describe_key(data[cls.get_key_name()])
        if not is_authentic(kind, data):
            refuse(kind, key)
            return None
        accept(kind, key)
        return super().from_raw_data(data)

    @classmethod
    def get(cls, *args: Any, **options: Any) -> Any:
        record = super().get(*args, **options)
        if record is None:
            raise cls.DoesNotExist
        return record

    @classmethod
    def scan(cls, *args: Any, **options: Any) -> Iterator[Any]:  # type: ignore[override]  # no counts of pages
        return (record for record in super().scan(*args, **options) if record is not None)

    @classmethod
    def batch_get(cls, *args: Any, **options: Any) -> Iterator[Any]:
        return (record for record in super().batch_get(*args, **options) if record is not None)

    def deserialize(self, attribute_values: dict[str, dict[str, Any]]) -> None:
        raise TypeError("a protected record is read anew")

    def update(self, *args: Any, **options: Any) -> Any:
        raise TypeError("a protected record is saved as a whole")

    def get_update_kwargs_from_instance(self, *args: Any, **options: Any) -> Any:
        raise TypeError("a protected record is saved as a whole")


class Versioned(Protected):
    """A mutable record under optimistic locking."""

    version = VersionAttribute()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Count a call; raise RecordConflict for a failed condition, RecordRefused for what the engine never takes, and
    RecordsUnavailable for any other failure of it."""
    runtime.get(Connections).count_call()
    try:
        yield
    except (BotoCoreError, ClientError) as error:  # before the library wraps it
        raise make_unavailable() from error
    except PynamoDBException as error:
        code = _find_code(error)
        if code == "TransactionCanceledException":
            reasons = getattr(error, "cancellation_reasons", ())
            if any(one and one.code in THROTTLED for one in reasons):
                raise RecordsThrottled from error
            if any(one and one.code == "ValidationError" for one in reasons):
                raise RecordRefused from error
            raise RecordConflict([bool(one) and one.code == "ConditionalCheckFailed" for one in reasons]) from error
        if "ConditionalCheckFailed" in code:
            raise RecordConflict from error
        if code == "ValidationException":
            raise RecordRefused from error
        if code in THROTTLES:
            raise RecordsThrottled from error
        if code in MISCONFIGURED:  # no retry helps: whoever runs the service has to know
            log_warning("the records engine refuses the service", code=code, reason=error.cause_response_message)
        raise make_unavailable() from error


def make_unavailable() -> RecordsUnavailable:
    """Return the problem of a call that failed, which says so where the reason is a full disk."""
    return RecordsUnavailable(DATA_DISK_FULL) if platform().is_data_disk_full() else RecordsUnavailable()


def _find_code(error: PynamoDBException) -> str:
    """The engine's word for a failure; "" when it gave none.

    Not the library's own `cause_response_code`, which takes it for granted that there was an answer.
    """
    response = getattr(error.cause, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def retry_on_conflict(change: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Repeat a read-and-write that met another writer, at most ATTEMPTS times."""

    @wraps(change)
    def retry(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for attempt in range(ATTEMPTS):
            try:
                return change(*args, **kwargs)
            except RecordConflict:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.01 * (attempt + 1))
        raise AssertionError("unreachable")

    return retry


def transaction(model: type[Model]) -> TransactWrite:
    """All writes made in its context happen, or none."""
    return TransactWrite(connection=get_connection(model))


def read_together(*wanted: tuple[type[Record], str]) -> list[Any]:
    """Records of several tables by their keys, None for one that is not there; one call, as a rule."""
    keys = {model: {model.get_key_name(): {STRING: key}} for model, key in wanted}
    asked = {model.Meta.table_name: {"Keys": [key], "ConsistentRead": True} for model, key in keys.items()}
    with translate_errors():
        try:
            answer = get_connection(wanted[0][0]).dispatch("BatchGetItem", {"RequestItems": asked})
        except BOTOCORE_EXCEPTIONS as error:
            raise GetError(str(error), error) from error
    return [_take(model, key, answer) for model, key in wanted]


def _take(model: type[Record], key: str, answer: dict[str, Any]) -> Any:
    """One of the records of an answer to BatchGetItem, which may leave some to be asked for again."""
    name = model.Meta.table_name
    if name not in answer.get("UnprocessedKeys", ()):
        items = answer["Responses"].get(name)
        return model.from_raw_data(items[0]) if items else None
    with translate_errors():
        try:
            return model.get(key, consistent_read=True)
        except model.DoesNotExist:
            return None


def get_connection(model: type[Model]) -> Any:
    """The connection of a model's table."""
    return model._get_connection().connection
