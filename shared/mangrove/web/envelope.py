"""The answer of every JSON endpoint: `{"code", "message", "data"}`, as bytes, always with HTTP status 200."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from mangrove.problems import Problem

_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z


class Reply(Response):
    """An envelope as a response."""

    media_type = "application/json"
    charset = "utf-8"

    def __init__(self, code: int, message: str, data: Any) -> None:
        body = orjson.dumps({"code": code, "message": message, "data": data}, option=_OPTIONS)
        super().__init__(body, headers={"content-type": "application/json; charset=utf-8"})


def ok(data: Any = None, message: str = "success") -> Reply:
    """Success; `data` is anything orjson can write, `orjson.Fragment` included."""
    return Reply(200, message, data)


def make_failure(problem: Problem, message: str | None = None) -> Reply:
    """A failure; `message` replaces the problem's own text (masked text)."""
    return Reply(problem.code, problem.message if message is None else message, problem.data)
