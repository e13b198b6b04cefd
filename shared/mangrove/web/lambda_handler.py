"""The adapter that makes an application a Lambda function, and the hooks of SnapStart.

AWS stores the memory of an initialised function, and starts many processes from it. No process may continue a
connection of another one, or repeat its random numbers.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import random
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mangum import Mangum

from mangrove import configuration
from mangrove.core import deadlines, runtime
from mangrove.core.aws import AwsSession
from mangrove.core.telemetry import log_exception, log_warning, name_invocation
from mangrove.web.application import Application

RESERVED_ANSWER_SECONDS = 1.0  # of a function's time, reserved for the answer that the time is over
FUNCTION_URL_MARK = ".lambda-url."  # in the domain of each Function URL
REFUSED_EVENT = {
    "statusCode": 400,
    "headers": {"content-type": "application/json"},
    "body": '{"code":400,"message":"this is no event of the HTTP API","data":null}',
    "isBase64Encoded": False,
}
SEED_BYTES = 64


class BadEvent(Exception):
    """The event is not a request; the text has the reason."""


def make_lambda_handler(app: Application) -> Callable[[Any, Any], Any]:
    """Make the entry point of a function.

    The adapter is made for each event, because it is stateless, and it uses the event loop, which an import must not
    do.
    """
    configuration.prefetch()
    register_hooks()

    def handler(event: Any, context: Any) -> Any:
        try:
            check_event(event)
            with deadlines.limit(_get_seconds(context)):
                return Mangum(app, lifespan="off")(_quote_path(event), context)
        except BadEvent as reason:
            log_warning("unknown event refused", reason=str(reason))
        # raised by the adapter, which does not check the event; the application answers its own errors
        except Exception:
            log_exception("unreadable event refused")
        return REFUSED_EVENT

    return name_invocation(handler)


def _get_seconds(context: Any) -> float:
    """Return the time for a request, without the time for an answer."""
    get_milliseconds = getattr(context, "get_remaining_time_in_millis", None)
    return math.inf if get_milliseconds is None else get_milliseconds() / 1000 - RESERVED_ANSWER_SECONDS


def _quote_path(event: Any) -> Any:
    """Return the event with its path percent-encoded, because the adapter decodes it. The HTTP API decodes it too; a
    Function URL leaves it as it was sent.
    """
    match event:
        case {"requestContext": {"domainName": str(domain)}} if FUNCTION_URL_MARK in domain:
            return event
        case {"requestContext": {"http": {"path": str(path)} as http} as context}:
            return event | {"requestContext": context | {"http": http | {"path": quote(path)}}}
    return event


def check_event(event: Any) -> None:
    """Raise BadEvent unless the event has the form of a request."""
    if not isinstance(event, dict) or event.get("version") != "2.0":
        raise BadEvent("it is not of payload format 2.0")
    context = event.get("requestContext")
    http = context.get("http") if isinstance(context, dict) else None
    if not isinstance(http, dict) or not all(isinstance(http.get(name), str) for name in ("method", "sourceIp")):
        raise BadEvent("it does not describe a request")
    if not all(isinstance(event.get(name, ""), str) for name in ("rawPath", "rawQueryString")):
        raise BadEvent("its path or query is not a text")
    headers = event.get("headers", {})
    if not isinstance(headers, dict) or not isinstance(event.get("cookies", []), list):
        raise BadEvent("its headers are not texts")
    if not all(isinstance(text, str) for header in headers.items() for text in header):
        raise BadEvent("its headers are not texts")
    _check_body(event.get("body"), event.get("isBase64Encoded"))


def _check_body(body: Any, is_encoded: Any) -> None:
    if body is not None and not isinstance(body, str):
        raise BadEvent("its body is not a text")
    if body and is_encoded:
        try:
            base64.b64decode(body)
        except (binascii.Error, ValueError):
            raise BadEvent("its body is not Base64") from None


def register_hooks() -> None:
    """Register the hooks if the function is initialised for a snapshot. Call it at the end of the initialisation."""
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    # of Lambda's own Python
    from snapshot_restore_py import register_after_restore, register_before_snapshot

    register_before_snapshot(close_connections)
    register_after_restore(seed)


def close_connections() -> None:
    """Close the connections to AWS. The clients open others when they are used."""
    runtime.get(AwsSession).close_connections()


def seed() -> None:
    """Seed the random numbers of this process anew. `secrets` and `os.urandom` need no seed."""
    random.seed(os.urandom(SEED_BYTES))
    ssl.RAND_add(os.urandom(SEED_BYTES), SEED_BYTES)
