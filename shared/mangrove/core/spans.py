"""Spans of traces: parts of the time of a request. Without a tracer they cost nothing and do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

OpenSpan = Callable[[str], AbstractContextManager[object]]
_open: ContextVar[OpenSpan | None] = ContextVar("open_span", default=None)


def open_span(name: str) -> AbstractContextManager[object]:
    """Return a context whose time is a span of the present trace, if there is one."""
    open_in_trace = _open.get()
    return nullcontext() if open_in_trace is None else open_in_trace(name)


@contextmanager
def use_spans(open_in_trace: OpenSpan) -> Iterator[None]:
    """Open spans by this function while the context lasts."""
    token = _open.set(open_in_trace)
    try:
        yield
    finally:
        _open.reset(token)
