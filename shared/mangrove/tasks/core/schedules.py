"""The frame of what a schedule calls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from mangrove.core.telemetry import Handler, name_invocation
from mangrove.tasks.core.worker_loop import run_in_loop


def make_scheduled(work: Callable[[], Coroutine[Any, Any, None]]) -> Handler[dict[str, Any], None]:
    """The handler of a function that a schedule calls; its answer is not read."""

    def handler(event: dict[str, Any], context: Any) -> None:
        run_in_loop(work())

    return name_invocation(handler)
