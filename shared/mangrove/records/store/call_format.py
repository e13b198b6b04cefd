"""The format of calls of DynamoDB that do not go through botocore, and the failures after which they are repeated."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from mangrove.core import aws_calls

OPERATIONS = frozenset({
    "BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "TransactGetItems",
    "TransactWriteItems", "UpdateItem",
})  # fmt: skip
THROTTLED_CODES = frozenset({
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException",
})  # fmt: skip
RETRIED_CODES = THROTTLED_CODES | {"InternalServerError", "TransactionInProgressException"}
EXPLAINED_CODES = frozenset({"ConditionalCheckFailedException", "TransactionCanceledException"})
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.025, 1.0  # before another attempt: those of botocore
OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS  # a secret that is not encrypted is a dataclass
BINARY = b'"B'  # in an answer with a binary attribute, or a set of them


def encode_arguments(arguments: dict[str, Any]) -> bytes:
    """Return the body of a call."""
    return orjson.dumps(arguments, default=_encode_binary, option=OPTIONS)


def decode_answer(content: bytes) -> dict[str, Any]:
    """Return the answer in the body of a successful call."""
    answer: dict[str, Any] = orjson.loads(content)
    return _decode(answer) if BINARY in content else answer


def describe_failure(status: int, content: bytes) -> dict[str, Any]:
    """Return the answer to a failed call as botocore has it in its exceptions."""
    failure = aws_calls.describe_failure(status, content)
    if failure["Error"]["Code"] in EXPLAINED_CODES:
        details = orjson.loads(content)
        failure |= {name: _decode(details[name]) for name in ("CancellationReasons", "Item") if name in details}
    return failure


def _encode_binary(value: Any) -> str:
    """Return the text of a binary value. Raise TypeError for any other value that JSON does not have."""
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"{type(value).__name__} is not a value of a record")
    return base64.b64encode(value).decode()


def _decode(value: Any) -> Any:
    """Return a part of an answer with the values of its binary attributes as bytes."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "B" and isinstance(content, str):
            return {kind: base64.b64decode(content)}
        if kind == "BS":
            return {kind: [base64.b64decode(item) for item in content]}
        if kind in ("S", "N"):
            return value
    return {name: _decode(item) for name, item in value.items()}
