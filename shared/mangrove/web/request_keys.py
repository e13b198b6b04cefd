"""Requests with an idempotency key: repeated within an hour, they get the first answer and do nothing.

A client names a request by `Idempotency-Key` or `X-Request-Id`. A key belongs to its caller. Only successes are kept,
so that a request that failed can be repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from mangrove.core.problems import BadRequest, Problem
from mangrove.records import request_keys
from mangrove.records.request_keys import RequestClaim, StoredRequest
from mangrove.web.envelope import Reply
from mangrove.web.flavours import find_flavour

KEY_HEADER, REQUEST_ID_HEADER = "Idempotency-Key", "X-Request-Id"
REPLAY_HEADER = "Idempotency-Replayed"
MAX_KEY_LENGTH = 255  # characters
RETRY_AFTER_SECONDS = 2
UPLOAD_HEADERS = ("file-path", "content-length", "x-file-size", "x-file-sha256", "as-task", "overwrite", "x-upload-id")
"""The headers that tell two uploads apart; their bodies are not compared."""

KEY_PARAMETER = {
    "name": KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "A text of your choice. For one hour the same request with it gets the first answer.",
    "schema": {"type": "string", "maxLength": MAX_KEY_LENGTH},
}


class RequestInProgress(Problem):
    """The first request with a key is not answered yet."""

    code = 409
    text = "a request with this key is in progress: repeat it later"
    retry_after = RETRY_AFTER_SECONDS


class AnswerNotStored(Problem):
    """The request with a key has succeeded, and its answer cannot be repeated."""

    code = 409
    text = "a request with this key has succeeded; its answer is too large to repeat"


def read_key(request: Request) -> str:
    """Return the key of a request, "" if it has none. Raise BadRequest for an Idempotency-Key that is too long."""
    key = request.headers.get(KEY_HEADER, "")
    if len(key) > MAX_KEY_LENGTH:
        raise BadRequest(f"{KEY_HEADER} may have at most {MAX_KEY_LENGTH} characters")
    if key:
        return key
    request_id = request.headers.get(REQUEST_ID_HEADER, "")
    return request_id if len(request_id) <= MAX_KEY_LENGTH else ""


async def answer_once(request: Request, caller: str, body: Any, respond: Callable[[], Awaitable[Response]]) -> Response:
    """Answer a request with a key by `respond`, or as the first request with this key was answered.

    Raise BadRequest if the Idempotency-Key was used with another content, RequestInProgress if the first request is
    not answered yet. A repeated X-Request-Id with another content is another request.
    """
    flavour = await find_flavour(request)
    key, fingerprint = await asyncio.to_thread(_hash, request, caller, body, flavour)
    claim = await asyncio.to_thread(request_keys.claim, key, fingerprint)
    if isinstance(claim, StoredRequest):
        if claim.fingerprint != fingerprint:
            raise BadRequest(f"the {KEY_HEADER} was used for another request")
        return _repeat(claim)
    try:
        answer = await respond()
    except BaseException:
        await asyncio.shield(_release(claim))
        raise
    if isinstance(answer, Reply) and answer.code == 200:
        await asyncio.to_thread(request_keys.store_answer, claim, bytes(answer.body))
    else:
        await _release(claim)
    return answer


def _hash(request: Request, caller: str, body: Any, flavour: str) -> tuple[str, str]:
    """Return the hash of the key of a request, and that of its content."""
    headers = [request.headers.get(name, "") for name in UPLOAD_HEADERS] if body is None else []
    requested = [request.method, request.url.path, request.url.query, flavour, headers, body]
    fingerprint = hashlib.sha256(orjson.dumps(requested, option=orjson.OPT_SORT_KEYS)).hexdigest()
    parts = [caller, read_key(request)]
    if not request.headers.get(KEY_HEADER):
        parts.append(fingerprint)
    return hashlib.sha256(orjson.dumps(parts)).hexdigest(), fingerprint


def _repeat(stored: StoredRequest) -> Reply:
    if not stored.is_answered:
        raise RequestInProgress
    if stored.answer is None:
        raise AnswerNotStored
    reply = Reply(200, stored.answer)
    reply.headers[REPLAY_HEADER] = "true"
    return reply


async def _release(claim: RequestClaim) -> None:
    with suppress(Problem):  # it expires
        await asyncio.to_thread(request_keys.release, claim)
