"""What all bodies and queries share: `null`, ids, and small checks whose messages clients know (behaviour 1.4)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, model_validator

from mangrove.problems import BadRequest

LARGEST_ID = 2**53
MUST = "x-must"  # marks a query parameter that the handler itself asks for, so that the OpenAPI document says so

Name = Annotated[str, Query(json_schema_extra={MUST: True})]
Number = Annotated[str, Query(json_schema_extra={MUST: True, "type": "integer"})]


class Body(BaseModel):
    """A JSON body. Unknown keys are ignored, so that what a list gave can be sent back; `null` counts as absent."""

    model_config = ConfigDict(extra="ignore", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if value is not None}
        return values


def required(kind: str, **fields: str) -> None:
    """BadRequest with one validator line for each empty field; `kind` is the record's name in the message."""
    lines = [
        f"Key: '{kind}.{name}' Error:Field validation for '{name}' failed on the 'required' tag"
        for name, value in fields.items()
        if not value
    ]
    if lines:
        raise BadRequest("\n".join(lines))


def whole(text: str) -> int:
    """An id out of a query; BadRequest when it is none."""
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 16 or int(text) > LARGEST_ID:
        raise BadRequest(f'strconv.Atoi: parsing "{text[:40]}": invalid syntax')
    return int(text)


async def _id(id: Number = "") -> int:
    return whole(id)


Id = Annotated[int, Depends(_id)]
