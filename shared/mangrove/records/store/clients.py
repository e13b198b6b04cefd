"""The client of DynamoDB that the connection of all tables uses: that of botocore, or one that does without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pynamodb.connection import Connection

from mangrove.core import aws_calls, runtime
from mangrove.core.aws import AwsSession
from mangrove.core.config import config
from mangrove.core.platform import platform

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse


def connect(connection: Connection, make_connection: Callable[[], Connection]) -> None:
    """Give a connection its client. `make_connection` returns an equal one."""
    if platform().has_cold_starts and aws_calls.is_supported():
        connection._client = _make_function_client(make_connection)
        return
    from mangrove.records.store.endpoints import use_socket

    _use_botocore(connection)
    use_socket(connection.client, config().records_socket)
    if platform().has_own_engine:
        from mangrove.records.store.direct_calls import replace_calls

        replace_calls(connection.client, config().records_socket)


def _make_function_client(make_connection: Callable[[], Connection]) -> Any:
    from mangrove.records.store.function_client import ATTEMPTS, FunctionClient

    def make_client() -> Any:
        connection = make_connection()
        connection._max_retry_attempts_exception -= ATTEMPTS
        return _use_botocore(connection).client

    return FunctionClient(make_client)


def _use_botocore(connection: Connection) -> Connection:
    """Let the connection make its client by the session of this process."""
    connection._local.session = runtime.get(AwsSession)
    _refuse_short_answers(connection)
    return connection


def _refuse_short_answers(connection: Connection) -> None:
    """Repeat a call whose answer is truncated: botocore would read it as a complete answer without records."""
    from botocore.exceptions import ConnectionClosedError

    session = connection.client._endpoint.http_session

    def send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        answer: AWSResponse = session.send(request)
        length = answer.headers.get("content-length")
        if length is not None and int(length) != len(answer.content):
            raise ConnectionClosedError(endpoint_url=request.url)
        return answer

    connection.client.meta.events.register("before-send.dynamodb", send)
