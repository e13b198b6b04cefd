"""The template's schedules on one machine."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest

from mangrove.standalone import scheduler
from tests.support.task_env import TaskEnv

WAIT_SECONDS = 120.0


def test_the_scheduler_runs_what_the_template_schedules(monkeypatch: pytest.MonkeyPatch, task_env: TaskEnv) -> None:
    assert sorted(scheduler.read_schedules()) == [
        ("functions.workers.reindex.app.handler", 300),
        ("functions.workers.sweep.app.handler", 3600),
    ]
    from functions.workers.sweep import app

    called: list[float] = []

    def handler(event: dict[str, Any], context: Any) -> None:
        called.append(time.monotonic())
        app_handler(event, context)
        if len(called) == 2:
            raise ValueError("one bad run does not end the schedule")

    app_handler = app.handler
    monkeypatch.setattr(app, "handler", handler)
    monkeypatch.setattr(scheduler, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(scheduler, "UNITS", {"hour": 0.02, "minute": 60})

    async def some_time() -> None:
        running = asyncio.create_task(scheduler.run())
        while len(called) < 4:
            await asyncio.sleep(0.01)
            assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(some_time(), WAIT_SECONDS))
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(called))


@pytest.mark.parametrize("expression", ["cron(0 * * * ? *)", "rate(1 week)", "at(2026-01-01T00:00:00)"])
def test_a_schedule_that_is_no_rate_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    event = {"Type": "ScheduleV2", "Properties": {"ScheduleExpression": expression}}
    function = {"CodeUri": "functions/x/", "Events": {"E": event}}
    monkeypatch.setattr(scheduler, "read_resources", lambda kind: {"X": function})
    with pytest.raises(ValueError, match="is not one that runs here"):
        scheduler.read_schedules()
