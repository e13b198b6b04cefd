"""Calls of records without botocore, by the own engine and by functions: the same answers and failures as with it."""

from __future__ import annotations

import http.client
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pynamodb.attributes import UnicodeAttribute

from mangrove.core import aws_calls
from mangrove.core.aws import create_client
from mangrove.core.config import Config
from mangrove.core.runtime import Runtime
from mangrove.records.store import direct_calls, function_client
from mangrove.records.store.call_format import RETRIED_CODES
from mangrove.records.store.direct_calls import replace_calls
from mangrove.records.store.function_client import FunctionClient

TABLE = "direct-calls"
KEY = {"id": {"S": "one"}}
ITEM = {
    **KEY,
    "binary": {"B": b"\x00\xff"},
    "binaries": {"BS": [b"\x01", b"\x02"]},
    "map": {"M": {"B": {"S": "text"}, "S": {"B": b"deep"}, "N": {"N": "-12"}}},
    "list": {"L": [{"B": b"listed"}, {"NULL": True}, {"BOOL": False}]},
    "text": {"S": "\U0001f600 é"},
}


def make_direct_client(url: str) -> Any:
    """Return the client of the own engine."""
    client = create_client("dynamodb", endpoint_url=url)
    replace_calls(client)
    return client


def make_function_client(url: str) -> Any:
    """Return the client of a function."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
        patch.setenv("AWS_REGION", "us-east-1")
        return FunctionClient(lambda: create_client("dynamodb", endpoint_url=url))


@pytest.fixture(params=[make_direct_client, make_function_client], ids=["own engine", "function"])
def make_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """The way to make a client without botocore, with short pauses."""
    monkeypatch.setattr(direct_calls, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(function_client, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    make: Callable[[str], Any] = request.param
    return make


@pytest.fixture
def clients(engine: str, make_client: Callable[[str], Any]) -> Iterator[tuple[Any, Any]]:
    """A client through botocore, and one with direct calls, of a table with ITEM."""
    by_botocore, direct = create_client("dynamodb", endpoint_url=engine), make_client(engine)
    by_botocore.create_table(
        TableName=TABLE,
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    direct.put_item(TableName=TABLE, Item=ITEM)
    yield by_botocore, direct
    direct.delete_table(TableName=TABLE)


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get": ("get_item", {"TableName": TABLE, "Key": KEY}),
    "get nothing": ("get_item", {"TableName": TABLE, "Key": {"id": {"S": "no"}}}),
    "batch": ("batch_get_item", {"RequestItems": {TABLE: {"Keys": [KEY]}}}),
    "scan": ("scan", {"TableName": TABLE, "Limit": 1}),
    "query": (
        "query",
        {
            "TableName": TABLE,
            "KeyConditionExpression": "id = :id",
            "ExpressionAttributeValues": {":id": {"S": "one"}},
        },
    ),
    "update": (
        "update_item",
        {
            "TableName": TABLE,
            "Key": KEY,
            "UpdateExpression": "SET extra = :extra",
            "ExpressionAttributeValues": {":extra": {"B": b"\x03"}},
            "ReturnValues": "ALL_NEW",
        },
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_answers_are_those_of_botocore(clients: tuple[Any, Any], name: str) -> None:
    method, arguments = CALLS[name]
    expected, answer = (getattr(client, method)(**arguments) for client in clients)
    expected.pop("ResponseMetadata")
    assert answer == expected


FAILURES: dict[str, tuple[str, dict[str, Any]]] = {
    "condition": (
        "put_item",
        {
            "TableName": TABLE,
            "Item": ITEM,
            "ConditionExpression": "attribute_not_exists(id)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        },
    ),
    "transaction": (
        "transact_write_items",
        {
            "TransactItems": [
                {"Put": {"TableName": TABLE, "Item": {"id": {"S": "two"}}}},
                {"Put": {"TableName": TABLE, "Item": ITEM, "ConditionExpression": "attribute_not_exists(id)"}},
            ]
        },
    ),
    "no table": ("get_item", {"TableName": "nothing", "Key": KEY}),
    "malformed": ("put_item", {"TableName": TABLE, "Item": {"other": {"S": "x"}}}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_those_of_botocore(clients: tuple[Any, Any], name: str) -> None:
    method, arguments = FAILURES[name]
    raised = []
    for client in clients:
        with pytest.raises(ClientError) as caught:
            getattr(client, method)(**arguments)
        raised.append(caught.value)
    expected, direct = raised
    assert type(direct).__name__ in (type(expected).__name__, "ClientError")  # functions have no classes of the codes
    assert direct.response["Error"]["Code"] == expected.response["Error"]["Code"]
    for part in ("CancellationReasons", "Item"):
        assert direct.response.get(part) == expected.response.get(part)


def test_a_value_that_no_record_can_have_is_refused(clients: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match="UnicodeAttribute"):
        clients[1].put_item(TableName=TABLE, Item={"id": UnicodeAttribute()})


class BrokenEngine:
    """An engine that sends each of some answers to a connection of its own, then refuses connections."""

    def __init__(self, *answers: bytes) -> None:
        self.requests = 0
        self.bodies: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._answer, args=(answers,))
        self._thread.start()

    def _answer(self, answers: tuple[bytes, ...]) -> None:
        for answer in answers:
            connection, _ = self._listener.accept()
            with connection:
                self.bodies.append(_receive_body(connection))
                self.requests += 1
                connection.sendall(answer)
        self._listener.close()

    def close(self) -> None:
        self._thread.join()


def _receive_body(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        headers = http.client.parse_headers(stream) if stream.readline() else {}
        return stream.read(int(headers.get("content-length", 0)))


def answer(status: str, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "first",
    [b"", answer("200 OK", b'{"Item": ', 50), answer("500 Internal Server Error", b"no JSON")],
    ids=["no answer", "truncated", "failed"],
)
def test_a_call_without_an_answer_is_repeated(make_client: Callable[[str], Any], first: bytes) -> None:
    engine = BrokenEngine(first, answer("200 OK", b'{"Item": {"id": {"S": "one"}}}'))
    client = make_client(engine.url)
    assert client.get_item(TableName=TABLE, Key=KEY) == {"Item": KEY}
    engine.close()
    assert engine.requests == 2


def test_no_engine_is_a_failure_of_the_connection(make_client: Callable[[str], Any]) -> None:
    engine = BrokenEngine()
    engine.close()
    client = make_client(engine.url)
    with pytest.raises(EndpointConnectionError):
        client.get_item(TableName=TABLE, Key=KEY)


def failure(code: str, status: str = "400 Bad Request") -> bytes:
    return answer(status, b'{"__type": "com.amazonaws#%s", "message": "no"}' % code.encode())


DONE = answer("200 OK", b"{}")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_client, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(function_client, "MAX_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize("code", sorted(RETRIED_CODES))
def test_function_leaves_a_call_that_fails_twice_to_botocore(short_pauses: None, code: str) -> None:
    engine = BrokenEngine(failure(code), failure(code), DONE)
    client = make_function_client(engine.url)
    assert "ResponseMetadata" in client.get_item(TableName=TABLE, Key=KEY), "the answer is not of botocore"
    engine.close()
    assert engine.requests == 3


def test_function_makes_no_client_of_botocore_for_its_operations(engine: str, short_pauses: None) -> None:
    client = make_function_client(engine)
    for operation, method in function_client.METHODS.items():
        with pytest.raises(ClientError):
            getattr(client, operation)()
        assert client._client is None, method


def test_function_raises_what_the_service_refuses_at_once(short_pauses: None) -> None:
    engine = BrokenEngine(failure("ValidationException"))
    with pytest.raises(ClientError) as caught:
        make_function_client(engine.url).get_item(TableName=TABLE, Key=KEY)
    engine.close()
    assert caught.value.response["Error"] == {"Code": "ValidationException", "Message": "no"}
    assert engine.requests == 1


def test_attempts_of_a_transaction_have_one_token(short_pauses: None) -> None:
    engine = BrokenEngine(b"", b"", DONE)
    make_function_client(engine.url).transact_write_items(
        TransactItems=[{"Put": {"TableName": TABLE, "Item": {"id": {"S": "two"}}}}]
    )
    engine.close()
    tokens = {orjson.loads(body)["ClientRequestToken"] for body in engine.bodies}
    assert len(engine.bodies) == 3
    assert [uuid.UUID(token).version for token in tokens] == [4]


SETTINGS = {
    "AWS_LAMBDA_FUNCTION_NAME": "example",
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"AWS_REGION": "us-gov-west-1"}, True),
        ({"AWS_REGION": "cn-north-1"}, False),
        ({"AWS_REGION": "us-iso-east-1"}, False),
        ({"AWS_LAMBDA_FUNCTION_NAME": ""}, False),
        ({"AWS_ACCESS_KEY_ID": ""}, False),
        ({"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}, False),
        ({"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"}, True),
        ({"MANGROVE_TRACING": "on"}, False),
        *[({name: "x"}, False) for name in aws_calls.UNSUPPORTED],
    ],
    ids=str,
)
def test_functions_do_without_botocore_if_nothing_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], expected: bool
) -> None:
    for name in aws_calls.UNSUPPORTED:
        monkeypatch.delenv(name, raising=False)
    for name, value in (SETTINGS | changes).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws_calls, "config", Config)
    assert aws_calls.is_supported() is expected


def test_functions_call_the_endpoint_of_their_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SECRETS_MANAGER"):
        monkeypatch.delenv(name, raising=False)
    for region in ("eu-central-1", "us-gov-west-1"):
        monkeypatch.setenv("AWS_REGION", region)
        for service in (aws_calls.RECORDS, aws_calls.SECRETS):
            expected = create_client(service.name, region=region).meta.endpoint_url
            address = aws_calls.ServiceCalls(service).address
            assert f"{address.scheme}://{address.netloc}" == expected


@pytest.fixture
def in_function(monkeypatch: pytest.MonkeyPatch, own_runtime: Runtime) -> pytest.MonkeyPatch:
    """The environment of a function."""
    for name in (*aws_calls.UNSUPPORTED, "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws_calls, "config", Config)
    return monkeypatch


def read_secret(patch: pytest.MonkeyPatch, engine: BrokenEngine) -> dict[str, Any]:
    patch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", engine.url)
    return aws_calls.ServiceClient(aws_calls.SECRETS).call("GetSecretValue", {"SecretId": "key"})


def test_service_answers_one_call_without_botocore(in_function: pytest.MonkeyPatch) -> None:
    engine = BrokenEngine(answer("200 OK", b'{"SecretString": "text"}'))
    assert read_secret(in_function, engine) == {"SecretString": "text"}
    engine.close()
    assert [orjson.loads(body) for body in engine.bodies] == [{"SecretId": "key"}]


def test_service_that_has_no_such_thing_is_not_asked_again(in_function: pytest.MonkeyPatch) -> None:
    engine = BrokenEngine(failure("ResourceNotFoundException"))
    with pytest.raises(ClientError) as caught:
        read_secret(in_function, engine)
    engine.close()
    assert caught.value.response["Error"] == {"Code": "ResourceNotFoundException", "Message": "no"}
    assert engine.requests == 1


@pytest.mark.parametrize(
    "first",
    [b"", failure("ThrottlingException"), failure("InternalServiceError", "500 Error"), failure("AccessDenied")],
    ids=["nothing", "throttled", "broken", "refused"],
)
def test_service_without_a_usable_answer_is_asked_by_botocore(in_function: pytest.MonkeyPatch, first: bytes) -> None:
    engine = BrokenEngine(first, answer("200 OK", b'{"SecretString": "text"}'))
    assert read_secret(in_function, engine)["SecretString"] == "text"
    engine.close()
    assert [orjson.loads(body) for body in engine.bodies] == [{"SecretId": "key"}] * 2


def test_service_is_asked_by_botocore_outside_of_a_function(in_function: pytest.MonkeyPatch) -> None:
    in_function.setenv("AWS_LAMBDA_FUNCTION_NAME", "")
    engine = BrokenEngine(answer("200 OK", b'{"SecretString": "text"}'))
    assert "ResponseMetadata" in read_secret(in_function, engine)
    engine.close()
