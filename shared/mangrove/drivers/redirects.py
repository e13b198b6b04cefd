"""Drivers that show other parts of the tree, and how deep they follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import DEEPEST_REDIRECT

_depth: ContextVar[int] = ContextVar("depth", default=0)


@contextmanager
def limit_depth() -> Iterator[None]:
    """Count drivers that lead to each other; StorageProblem when there are too many, as in a circle.

    Not to be held across the `yield` of a generator.
    """
    depth = _depth.get()
    if depth >= DEEPEST_REDIRECT:
        raise StorageProblem("the storages lead to each other in a circle")
    token = _depth.set(depth + 1)
    try:
        yield
    finally:
        _depth.reset(token)
