"""Calls of the own records engine without botocore: the same answers and failures as with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pynamodb.attributes import UnicodeAttribute

from mangrove.core.aws import create_client
from mangrove.records.store import direct_calls
from mangrove.records.store.direct_calls import replace_calls

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


@pytest.fixture
def clients(engine: str) -> Iterator[tuple[Any, Any]]:
    """A client through botocore, and one with direct calls, of a table with ITEM."""
    by_botocore, direct = (create_client("dynamodb", endpoint_url=engine) for _ in range(2))
    replace_calls(direct)
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
    assert type(direct).__name__ == type(expected).__name__
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
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._answer, args=(answers,))
        self._thread.start()

    def _answer(self, answers: tuple[bytes, ...]) -> None:
        for answer in answers:
            connection, _ = self._listener.accept()
            with connection:
                connection.recv(1 << 16)
                self.requests += 1
                connection.sendall(answer)
        self._listener.close()

    def close(self) -> None:
        self._thread.join()


def answer(status: str, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "first",
    [b"", answer("200 OK", b'{"Item": ', 50), answer("500 Internal Server Error", b"no JSON")],
    ids=["no answer", "truncated", "failed"],
)
def test_a_call_without_an_answer_is_repeated(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr(direct_calls, "FIRST_PAUSE_SECONDS", 0.0)
    engine = BrokenEngine(first, answer("200 OK", b'{"Item": {"id": {"S": "one"}}}'))
    client = create_client("dynamodb", endpoint_url=engine.url)
    replace_calls(client)
    assert client.get_item(TableName=TABLE, Key=KEY) == {"Item": KEY}
    engine.close()
    assert engine.requests == 2


def test_no_engine_is_a_failure_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_calls, "FIRST_PAUSE_SECONDS", 0.0)
    engine = BrokenEngine()
    engine.close()
    client = create_client("dynamodb", endpoint_url=engine.url)
    replace_calls(client)
    with pytest.raises(EndpointConnectionError):
        client.get_item(TableName=TABLE, Key=KEY)
