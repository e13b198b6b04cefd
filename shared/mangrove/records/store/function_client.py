"""The client of the tables in a function: it sends the usual operations without botocore.

A call without a usable answer is repeated once. Then botocore makes a client for it and all later attempts.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from mangrove.core.aws_calls import RECORDS, ServiceAnswer, ServiceCalls
from mangrove.records.store.call_format import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    OPERATIONS,
    RETRIED_CODES,
    THROTTLED_CODES,
    decode_answer,
    describe_failure,
    encode_arguments,
)

ATTEMPTS = 2  # without botocore
RETRIED_STATUSES = frozenset({500, 502, 503, 504})
METHODS = {re.sub("(?<!^)(?=[A-Z])", "_", operation).lower(): operation for operation in OPERATIONS}


class FunctionClient:
    """Stands for a botocore client of DynamoDB: its methods and pynamodb call `_make_api_call`."""

    def __init__(self, make_client: Callable[[], Any]) -> None:
        self._make_client = make_client
        self._client: Any = None
        self._lock = threading.Lock()
        self._calls = ServiceCalls(RECORDS)
        self._request_signer = None  # in which pynamodb looks for missing credentials

    @property
    def client(self) -> Any:
        """The client of botocore, made at the first use."""
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def __getattr__(self, name: str) -> Any:
        """Return the method of an operation, or any other attribute of the client of botocore."""
        operation = METHODS.get(name)
        if operation is None:
            return getattr(self.client, name)
        return lambda **arguments: self._make_api_call(operation, arguments)

    def _make_api_call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer. Raise ClientError if the service refuses the call, otherwise the failures of botocore."""
        if operation in OPERATIONS:
            if operation == "TransactWriteItems":
                arguments = {"ClientRequestToken": str(uuid4()), **arguments}  # of all attempts, as botocore adds it
            body = encode_arguments(arguments)
            for _ in range(ATTEMPTS):
                result = self._try(operation, body)
                if isinstance(result, dict):
                    return result
                time.sleep(random.uniform(0, result))
        answer: dict[str, Any] = self.client._make_api_call(operation, arguments)
        return answer

    def _try(self, operation: str, body: bytes) -> dict[str, Any] | float:
        """Return the answer, or the longest pause before another attempt. Raise ClientError."""
        try:
            answer = self._calls.send(operation, body)
        except OSError:
            return FIRST_PAUSE_SECONDS
        if answer.status == HTTPStatus.OK:
            return decode_answer(answer.content)
        failure = describe_failure(answer.status, answer.content)
        code = failure["Error"]["Code"]
        if answer.status in RETRIED_STATUSES or code in RETRIED_CODES:
            return MAX_PAUSE_SECONDS if code in THROTTLED_CODES else FIRST_PAUSE_SECONDS
        raise _make_error(failure, answer, operation)


def _make_error(failure: dict[str, Any], answer: ServiceAnswer, operation: str) -> ClientError:
    failure["ResponseMetadata"]["HTTPHeaders"] = dict(answer.headers)
    failure["ResponseMetadata"]["RequestId"] = answer.headers.get("x-amzn-requestid", "")
    return ClientError(failure, operation)
