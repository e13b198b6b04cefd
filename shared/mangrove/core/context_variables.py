"""A context variable that has a value for the duration of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def set_in_context(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Set a variable. Give it its previous value at the end."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
