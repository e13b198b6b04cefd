"""Binding of requests: any body as JSON, `null` as absent, checks whose messages clients know (behaviour 1.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, model_validator

from mangrove.integers import parse_integer
from mangrove.problems import BadRequest, Problem, TooLarge

LARGEST_JSON = 8 << 20  # bytes of a JSON body
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

    FastAPI binds only what says that it is JSON, so `content-type` says so, whatever the client sent.
    """

    def __init__(self, request: Request) -> None:
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._is_too_large = False

    async def body(self) -> bytes:
        """The bytes; a blank when there are none, as FastAPI binds no empty body."""
        if not hasattr(self, "_body"):
            received = bytearray()
            async for chunk in self.stream():
                received += chunk
                if len(received) > LARGEST_JSON:
                    self._is_too_large = True
                    received.clear()
                    break
            self._body = bytes(received) or b" "
        return self._body

    async def json(self) -> Any:
        """The value, or an UnreadableBody."""
        text = (await self.body()).strip()
        if self._is_too_large:
            return UnreadableBody(TooLarge(f"a JSON body may have at most {LARGEST_JSON} bytes"))
        if not text:
            return EmptyBody(BadRequest("EOF"))
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return UnreadableBody(BadRequest(f"invalid JSON: {error}"))
        return {} if value is None else value


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


def require_fields(kind: str, **fields: str) -> None:
    """BadRequest with one validator line for each empty field; `kind` is the record's name in the message."""
    lines = [
        f"Key: '{kind}.{name}' Error:Field validation for '{name}' failed on the 'required' tag"
        for name, value in fields.items()
        if not value
    ]
    if lines:
        raise BadRequest("\n".join(lines))


def parse_id(text: str, message: str = "") -> int:
    """An id out of a query; BadRequest with `message`, or in the usual words, when it is none."""
    number = parse_integer(text, signed=True, digits=16)
    if number is None or number > LARGEST_ID or text.startswith("+"):
        raise BadRequest(message or f'strconv.Atoi: parsing "{text[:40]}": invalid syntax')
    return number


async def _parse_id_parameter(id: RequiredNumber = "") -> int:
    return parse_id(id)


Id = Annotated[int, Depends(_parse_id_parameter)]
