"""Binding of requests: any body as JSON, `null` as absent, checks whose messages clients know (behaviour 1.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, model_validator
from starlette.exceptions import HTTPException

from mangrove.core.http import parse_integer
from mangrove.core.problems import BadRequest, Problem, TooLarge
from mangrove.web.framework import Depends, Query, Request

LARGEST_JSON = 8 << 20  # bytes of a JSON body: 10,000 pairs of the longest names
LARGEST_UNGATED_JSON = 64 << 10  # bytes that are read before it is known who sends them
MOST_JSON_VALUES = 50_000  # of a body over LARGEST_UNGATED_JSON: more of them take too long to be parsed
_MARKS = (b",", b"[", b"{")  # in front of every value but one
LARGEST_ID = 2**53
REQUIRED_MARK = "x-must"  # on a query parameter whose absence the handler refuses, for the OpenAPI document

RequiredText = Annotated[str, Query(json_schema_extra={REQUIRED_MARK: True})]
RequiredNumber = Annotated[str, Query(json_schema_extra={REQUIRED_MARK: True, "type": "integer"})]


@dataclass(frozen=True, slots=True)
class UnreadableBody:
    """Stands for a body that could not be read. No model takes it, which is found after the gate let the caller in."""

    problem: Problem


class EmptyBody(UnreadableBody):
    """Stands for a body of nothing but blanks."""


async def read_json(request: Request, admit: Callable[[], Awaitable[Any]] | None = None) -> Any:
    """The body as JSON, `null` the same as `{}`, whatever type the client says it has; or an UnreadableBody.

    It is read before the gate is asked; so one over LARGEST_UNGATED_JSON is read on only when `admit`, which asks the
    gate too, raises no Problem, and not at all when there is none. One over LARGEST_JSON is never read to its end.
    """
    try:
        text = await _receive_body(request, admit)
    except Problem as problem:
        return UnreadableBody(problem)
    except Exception as error:  # the client has left, or what it sends is no HTTP
        raise HTTPException(400, "There was an error parsing the body") from error
    text = text.strip()
    if not text:
        return EmptyBody(BadRequest("the body is empty"))
    try:
        if len(text) > LARGEST_UNGATED_JSON:
            await asyncio.sleep(0)  # what is done with it is another turn of the event loop, and so is the parsing
        value = orjson.loads(text)
        if len(text) > LARGEST_UNGATED_JSON:
            await asyncio.sleep(0)
    except orjson.JSONDecodeError as error:
        return UnreadableBody(BadRequest(f"invalid JSON: {error}"))
    return {} if value is None else value


async def _receive_body(request: Request, admit: Callable[[], Awaitable[Any]] | None) -> bytes | bytearray:
    received, marks, is_admitted = bytearray(), 0, False
    largest = LARGEST_UNGATED_JSON if admit is None else LARGEST_JSON
    async for chunk in request.stream():
        received += chunk
        marks += sum(map(chunk.count, _MARKS))
        if len(received) <= LARGEST_UNGATED_JSON:
            continue
        if len(received) > largest:
            raise TooLarge(f"a JSON body may have at most {largest} bytes")
        if marks > MOST_JSON_VALUES:
            raise BadRequest(f"a JSON body may have at most {MOST_JSON_VALUES} values")
        if admit is not None and not is_admitted:
            await admit()
            is_admitted = True
    return received


class Model(BaseModel):
    """What an answer looks like, for the OpenAPI document. Nothing is validated with it, so that is not built."""

    model_config = ConfigDict(defer_build=True)


class Body(BaseModel):
    """A JSON body. Unknown keys are ignored, so that what a list gave can be sent back; `null` counts as absent."""

    model_config = ConfigDict(extra="ignore", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if isinstance(values, UnreadableBody):
            raise ValueError("the body cannot be read")  # FastAPI would look for the fields among its attributes
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if value is not None}
        return values


def require_fields(**fields: str) -> None:
    """BadRequest with a line for each empty field."""
    missing = [f"{name} is required" for name, value in fields.items() if not value]
    if missing:
        raise BadRequest("\n".join(missing))


def parse_id(text: str, message: str = "") -> int:
    """An id out of a query; BadRequest with `message`, or in the usual words, when it is none."""
    number = parse_integer(text, signed=True, digits=16)
    if number is None or number > LARGEST_ID or text.startswith("+"):
        raise BadRequest(message or f'"{text[:40]}" is no integer')
    return number


async def _parse_id_parameter(id: RequiredNumber = "") -> int:
    return parse_id(id)


Id = Annotated[int, Depends(_parse_id_parameter)]
