"""Binding of requests: any body as JSON, `null` as absent, checks whose messages clients know (behaviour 1.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, model_validator

from mangrove.integers import parse_integer
from mangrove.problems import BadRequest, Problem, TooLarge

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


class JsonRequest(Request):
    """A request whose body is JSON, `null` the same as `{}`, and never more than LARGEST_JSON.

    FastAPI binds only what says that it is JSON, so `content-type` says so, whatever the client sent. It reads the
    body before it asks the gate; so a body over LARGEST_UNGATED_JSON is read on only when `admit`, which asks the gate
    too, raises no Problem, and not at all when there is none.
    """

    def __init__(self, request: Request, admit: Callable[[Request], Awaitable[Any]] | None = None) -> None:
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._admit = admit
        self._refusal: UnreadableBody | None = None

    async def body(self) -> bytes:
        """The bytes; a blank when there are none, as FastAPI binds no empty body."""
        if not hasattr(self, "_body"):
            self._body = await self._receive_body() or b" "
        return self._body

    async def _receive_body(self) -> bytes:
        received, marks, is_admitted = bytearray(), 0, False
        largest = LARGEST_UNGATED_JSON if self._admit is None else LARGEST_JSON
        async for chunk in self.stream():
            received += chunk
            marks += sum(map(chunk.count, _MARKS))
            if len(received) <= LARGEST_UNGATED_JSON:
                continue
            if len(received) > largest:
                return self._refuse(TooLarge(f"a JSON body may have at most {largest} bytes"))
            if marks > MOST_JSON_VALUES:
                return self._refuse(BadRequest(f"a JSON body may have at most {MOST_JSON_VALUES} values"))
            if self._admit is not None and not is_admitted:
                try:
                    await self._admit(self)
                except Problem as problem:
                    return self._refuse(problem)  # what is raised here would be a body that cannot be parsed
                is_admitted = True
        return bytes(received)

    def _refuse(self, problem: Problem) -> bytes:
        self._refusal = UnreadableBody(problem)
        return b""

    async def json(self) -> Any:
        """The value, or an UnreadableBody."""
        text = (await self.body()).strip()
        if self._refusal is not None:
            return self._refusal
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
