"""An application as a function of the cloud: the adapter to Lambda."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mangum import Mangum

from mangrove import configuration
from mangrove.core import deadlines
from mangrove.core.telemetry import log_exception, log_warning, name_invocation
from mangrove.web.front import Front

ANSWER_SECONDS = 1.0  # of a function's time that are left for the answer that it was not enough


def make_lambda_handler(app: Front) -> Callable[[Any, Any], Any]:
    """The entry point of a function in the cloud.

    The adapter is made for each event: it keeps nothing, and it touches the event loop, which an import must not.
    """
    configuration.prefetch()

    def handler(event: Any, context: Any) -> Any:
        try:
            check_event(event)
            with deadlines.limit(_get_seconds(context)):
                return Mangum(app, lifespan="off")(_quote_path(event), context)
        except BadEvent as reason:
            log_warning("an event that is not the HTTP API's", reason=str(reason))
        except Exception:  # of the adapter, which takes an event for granted: what the application raises is answered
            log_exception("an event cannot be read")
        return REFUSED_EVENT

    return name_invocation(handler)


def _get_seconds(context: Any) -> float:
    """How long the function may work for a request, so that there is time left to answer."""
    get_milliseconds = getattr(context, "get_remaining_time_in_millis", None)
    return math.inf if get_milliseconds is None else get_milliseconds() / 1000 - ANSWER_SECONDS


def _quote_path(event: Any) -> Any:
    """The event with its path percent-encoded. An HTTP API delivers it decoded, and the adapter decodes it again."""
    match event:
        case {"requestContext": {"http": {"path": str(path)} as http} as about}:
            return event | {"requestContext": about | {"http": http | {"path": quote(path)}}}
    return event


TEXTS = ("rawPath", "rawQueryString")
REFUSED_EVENT = {
    "statusCode": 400,
    "headers": {"content-type": "application/json"},
    "body": '{"code":400,"message":"this is no event of the HTTP API","data":null}',
    "isBase64Encoded": False,
}


class BadEvent(Exception):
    """Why an event cannot be read."""


def check_event(event: Any) -> None:
    """BadEvent unless the event has the form that a request is made of."""
    if not isinstance(event, dict) or event.get("version") != "2.0":
        raise BadEvent("it is not of payload format 2.0")
    context = event.get("requestContext")
    http = context.get("http") if isinstance(context, dict) else None
    if not isinstance(http, dict) or not all(isinstance(http.get(name), str) for name in ("method", "sourceIp")):
        raise BadEvent("it tells of no request")
    if not all(isinstance(event.get(name, ""), str) for name in TEXTS):
        raise BadEvent("its path or query is no text")
    if not _are_texts(event.get("headers", {})) or not isinstance(event.get("cookies", []), list):
        raise BadEvent("its headers are no texts")
    _check_body(event.get("body"), event.get("isBase64Encoded"))


def _are_texts(headers: Any) -> bool:
    return isinstance(headers, dict) and all(isinstance(text, str) for pair in headers.items() for text in pair)


def _check_body(body: Any, is_encoded: Any) -> None:
    if body is not None and not isinstance(body, str):
        raise BadEvent("its body is no text")
    if body and is_encoded:
        try:
            base64.b64decode(body)
        except (binascii.Error, ValueError):
            raise BadEvent("its body is not what base64 makes") from None
