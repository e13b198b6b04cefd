"""Calls to the programs beside this service, whose answers are small."""

from __future__ import annotations

from typing import Any

import httpx

from mangrove.net import guard
from mangrove.problems import Problem, Unreachable

SECONDS = 15.0  # for an answer
LARGEST = 16 << 20  # bytes


async def ask(client: httpx.AsyncClient, method: str, url: str, **how: Any) -> httpx.Response:
    """Status and body of the answer, whatever they are; Unreachable with the reason alone as its text."""
    try:
        async with client.stream(method, url, **how) as answer:
            read = bytearray()
            async for piece in answer.aiter_bytes():
                read += piece
                if len(read) > LARGEST:
                    raise Problem("the answer is too large")
            return httpx.Response(answer.status_code, content=bytes(read))
    except guard.FAILURES as error:
        raise Unreachable(guard.reason(error)) from None
