"""The template's schedules on one machine."""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from typing import Any

from mangrove.core.telemetry import log_exception
from mangrove.standalone.template import read_resources

UNITS = {"minute": 60, "hour": 3600, "day": 86_400}
FIRST_SECONDS = 60.0  # from the start of the service to the first run, so that it does not delay the start
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


def read_schedules() -> list[tuple[str, float]]:
    """Return `module.handler` of a function and the seconds between its runs.

    Raise ValueError for an expression that is not `rate()`.
    """
    schedules: list[tuple[str, float]] = []
    for properties in read_resources("AWS::Serverless::Function").values():
        for event in properties.get("Events", {}).values():
            if event["Type"] != "ScheduleV2":
                continue
            expression = event["Properties"]["ScheduleExpression"]
            match = _RATE.fullmatch(expression)
            if match is None:
                raise ValueError(f"the schedule {expression} is not one that runs here")
            code = properties["CodeUri"].rstrip("/").replace("/", ".")
            schedules.append((f"{code}.{properties.get('Handler', 'app.handler')}", int(match[1]) * UNITS[match[2]]))
    return schedules


async def run() -> None:
    """Call every scheduled function at its rate, until cancelled; the first time after FIRST_SECONDS."""
    async with asyncio.TaskGroup() as group:
        for name, seconds in read_schedules():
            group.create_task(_repeat(name, seconds))


async def _repeat(name: str, seconds: float) -> None:
    module, attribute = name.rsplit(".", 1)
    handler: Any = getattr(import_module(module), attribute)
    await asyncio.sleep(FIRST_SECONDS)
    while True:
        try:
            await asyncio.to_thread(handler, {}, None)
        except Exception:
            log_exception("scheduled function failed", function=name)
        await asyncio.sleep(seconds)
