"""What API Gateway hands to a function: an event of an HTTP API, payload format 2.0, and nothing else."""

from __future__ import annotations

import base64
import binascii
from typing import Any

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
