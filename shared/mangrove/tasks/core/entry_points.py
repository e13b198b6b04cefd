"""The handlers of the worker functions, derived from the declaration of their machine."""

from __future__ import annotations

from typing import Any

from mangrove.core.telemetry import name_invocation
from mangrove.tasks.core.registry import MACHINES, resolve
from mangrove.tasks.core.sharing import make_part_handler
from mangrove.tasks.core.steps import STEP_SECONDS, Handler, make_settler, make_worker

PART, SETTLE = "Part", "Settle"


def make_handler(machine: str, state: str) -> Handler:
    """Return the handler of a state of a machine."""
    declared = MACHINES[machine]
    step = next(step for step in declared.steps if step.state == state)
    function: Any = resolve(machine, step.function)
    if state == PART:
        handler: Handler = name_invocation(make_part_handler(function))
        return handler
    if state == SETTLE:
        return make_settler(declared.schema, function)
    seconds = resolve(machine, step.seconds) if step.seconds else STEP_SECONDS
    describe = resolve(machine, step.describe) if step.describe else None
    return make_worker(declared.schema, function, seconds, describe)
