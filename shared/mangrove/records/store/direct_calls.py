"""Calls of the records engine of this computer without the layers of botocore, which take most of the time of a call.

botocore still makes the client and its credentials, and it sends the operations that are not in OPERATIONS. Calls of an
external engine go through botocore as well; for those in the cloud see `function_client`.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import closing
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import EndpointConnectionError

from mangrove.core.aws_calls import MAX_ANSWER_BYTES
from mangrove.core.http_connections import HttpConnections
from mangrove.core.signatures import Credentials, Signer
from mangrove.records.store.call_format import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    OPERATIONS,
    RETRIED_CODES,
    decode_answer,
    describe_failure,
    encode_arguments,
)
from mangrove.records.store.endpoints import EngineEndpoint

TARGET = "DynamoDB_20120810"
CONTENT_TYPE = "application/x-amz-json-1.0"
ATTEMPTS = 8  # unless the client has another number


def replace_calls(client: Any, socket_path: str = "") -> None:
    """Send the calls of a botocore client of DynamoDB directly. Its methods and pynamodb use `_make_api_call`. Its
    `close` also closes the connections of these calls.

    `socket_path`: see `EngineEndpoint`.
    """
    calls = DirectCalls(client, socket_path)
    client._make_api_call, client.close = calls.call, calls.close


class DirectCalls:
    """Sends the calls of a client through connections of its own, signed like those of botocore."""

    def __init__(self, client: Any, socket_path: str) -> None:
        self._client = client
        self._call_with_botocore = client._make_api_call
        self._close_botocore = client.close
        self._attempts = (client.meta.config.retries or {}).get("total_max_attempts", ATTEMPTS)
        self._url = client.meta.endpoint_url
        self._host = urlsplit(self._url).netloc
        settings = client.meta.config
        endpoint = EngineEndpoint(self._url, socket_path)
        self._connections = HttpConnections(partial(endpoint.connect, settings.connect_timeout), settings.read_timeout)
        self._signer = Signer("dynamodb", client.meta.region_name, self._get_credentials)

    def close(self) -> None:
        """Close the connections, which another process must not use."""
        self._connections.close()
        self._close_botocore()

    def _get_credentials(self) -> Credentials:
        frozen = self._client._request_signer._credentials.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")

    def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer. Raise ClientError if the engine refuses the call, EndpointConnectionError without one."""
        if operation not in OPERATIONS:
            answer: dict[str, Any] = self._call_with_botocore(operation, arguments)
            return answer
        body = encode_arguments(arguments)
        pause = FIRST_PAUSE_SECONDS
        for _ in range(self._attempts - 1):
            try:
                return self.send(operation, body)
            except EndpointConnectionError:
                pass
            except self._client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] not in RETRIED_CODES:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        return self.send(operation, body)

    def send(self, operation: str, body: bytes) -> dict[str, Any]:
        """Send a call once and return the answer. Raise the failures of `call`."""
        headers = {"host": self._host, "content-type": CONTENT_TYPE, "x-amz-target": f"{TARGET}.{operation}"}
        signed = self._signer.sign("POST", "/", {}, headers, hashlib.sha256(body).hexdigest())
        try:
            with closing(self._connections.send("POST", "/", signed, body)) as answer:
                content = answer.read_all(MAX_ANSWER_BYTES)
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self._url, error=error) from error
        if answer.status != HTTPStatus.OK:
            raise self._make_error(operation, answer.status, content)
        return decode_answer(content)

    def _make_error(self, operation: str, status: int, content: bytes) -> Exception:
        """Return the exception that botocore raises for a failed call."""
        failure = describe_failure(status, content)
        error: Exception = self._client.exceptions.from_code(failure["Error"]["Code"])(failure, operation)
        return error
