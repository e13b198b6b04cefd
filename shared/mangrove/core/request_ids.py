"""The id of the request that this process answers: in its answer, in each line of its log, and in its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from secrets import token_hex

HEADER = b"x-request-id"
MAX_REQUEST_ID_LENGTH = 64
_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_REQUEST_ID_LENGTH}}}")
_id: ContextVar[str] = ContextVar("request_id", default="")


def choose_request_id(header: bytes | None) -> str:
    """Return the id that a client or a proxy sent, or a new one if it is absent, too long or has other characters."""
    text = header.decode("latin-1") if header is not None else ""
    return text if _ID.fullmatch(text) else token_hex(8)


def get_request_id() -> str:
    """Return the id of the request, "" outside of a request."""
    return _id.get()


@contextmanager
def use_request_id(id: str) -> Iterator[None]:
    """Work for this request while the context lasts."""
    token = _id.set(id)
    try:
        yield
    finally:
        _id.reset(token)
