"""What the service stores as JSON for itself: dataclasses made of it, each value checked, and JSON made of them.

Keys that are not known are ignored: another version may have stored them. Pydantic checks what people send, and a
worker need not import it, which takes longer than most of what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

Made = TypeVar("Made")


class Misfit(ValueError):
    """What was read is no JSON, or not of the wanted form."""


def parse(kind: type[Made], content: bytes | str) -> Made:
    """A dataclass of JSON; as `structure` otherwise."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Misfit(str(error)) from None
    return structure(kind, value)


def structure(kind: type[Made], value: Any) -> Made:
    """A dataclass of a JSON object; Misfit for what does not fit. Fields may be bool, int, float, str, Literal, None,
    NamedTuples, which are JSON arrays, dataclasses, and list, dict and unions with None of them."""
    made: Made = _read(kind, value)
    return made


def dump(value: Any) -> bytes:
    """The JSON that `parse` reads."""
    return orjson.dumps(unstructure(value))


def unstructure(value: Any) -> Any:
    """The JSON value that `structure` reads."""
    if is_dataclass(value):
        return {field.name: unstructure(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: unstructure(one) for key, one in value.items()}
    return [unstructure(one) for one in value] if isinstance(value, list | tuple) else value


def _read(kind: Any, value: Any) -> Any:
    match get_origin(kind), value:
        case None, _:
            return _read_plain(kind, value)
        case origin, _ if origin in (Union, UnionType):
            (other,) = (one for one in get_args(kind) if one is not NoneType)
            return None if value is None else _read(other, value)
        case origin, _ if origin is Literal and (type(value), value) in ((type(one), one) for one in get_args(kind)):
            return value
        case origin, list() if origin is list:
            (row,) = get_args(kind)
            return [_read(row, one) for one in value]
        case origin, dict() if origin is dict:
            key, row = get_args(kind)
            return {_read(key, name): _read(row, one) for name, one in value.items()}
    return _refuse(kind, value)


def _read_plain(kind: Any, value: Any) -> Any:
    if is_dataclass(kind) and isinstance(value, Mapping):
        return _make(kind, value)
    if issubclass(kind, tuple) and isinstance(value, list):
        hints = find_hints(kind).values()
        return kind(*map(_read, hints, value)) if len(hints) == len(value) else _refuse(kind, value)
    if kind is float and type(value) is int:
        return float(value)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return value if fits else _refuse(kind, value)


def _make(kind: Any, value: Mapping[str, Any]) -> Any:
    hints = find_hints(kind)
    known = {field.name: field for field in fields(kind)}
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise Misfit(f"{kind.__name__} has no {name}")
    return kind(**{name: _read(hints[name], value[name]) for name in known if name in value})


@cache
def find_hints(kind: Any) -> dict[str, Any]:
    """The annotations of a class, evaluated."""
    return get_type_hints(kind)


def _refuse(kind: Any, value: Any) -> Any:
    raise Misfit(f"{type(value).__name__} is no {getattr(kind, '__name__', kind)}")
