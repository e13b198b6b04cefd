"""Requests that take longer than their function has."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from mangrove.core import deadlines
from mangrove.core.problems import OutOfTime
from mangrove.drivers.base import Entry
from mangrove.tree.listing.listing import collect_entries
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Anyone
from mangrove.web.lambda_handler import RESERVED_ANSWER_SECONDS
from tests.support.awkward_names import make_event
from tests.unit.web.configs import CLOUD, configure


@dataclass
class Context:
    """The facts about time that Lambda gives a function."""

    seconds: float
    function_name: str = "test"
    aws_request_id: str = "one"

    def get_remaining_time_in_millis(self) -> int:
        return int((self.seconds + RESERVED_ANSWER_SECONDS) * 1000)


@pytest.fixture
def loop() -> Iterator[None]:
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    yield
    asyncio.set_event_loop(None)
    loop.close()


def make_handler() -> Any:
    group = Api("test")

    @group.get("/api/slow")
    @group.get("/d/slow")
    async def slow(who: Anyone, seconds: float) -> Reply:
        await asyncio.sleep(seconds)
        return ok(deadlines.get_remaining() < math.inf)

    @group.get("/api/loop")
    async def loop(who: Anyone) -> Reply:
        while True:
            time.sleep(0.01)  # noqa: ASYNC251
            deadlines.check()

    @group.get("/api/failing")
    async def failing(who: Anyone) -> Reply:
        raise TimeoutError("of something else")

    @group.get("/d/begun")
    async def begun(who: Anyone) -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            yield b"a"
            await asyncio.sleep(60)

        return StreamingResponse(body())

    return make_lambda_handler(group.app)


def ask(path: str, seconds: float) -> dict[str, Any]:
    answer: dict[str, Any] = make_handler()(
        make_event("GET", f"https://here{path}", {"origin": "https://there"}), Context(seconds)
    )
    return answer


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("path", ["/api/slow?seconds=60", "/api/loop", "/d/slow?seconds=60", "/d/begun"])
def test_nothing_waits_longer_than_its_function_has(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    configure(CLOUD)
    began = time.monotonic()
    answer = ask(path, 0.2)
    assert time.monotonic() - began < 30  # of the 60 that it would take
    if path.startswith("/api"):
        envelope = json.loads(answer["body"])
        assert (answer["statusCode"], envelope["code"], envelope["problem"]) == (200, 500, "OutOfTime")
        assert answer["headers"]["access-control-allow-origin"] == "*"
    else:
        assert answer["statusCode"] == 500


@pytest.mark.usefixtures("loop")
def test_what_is_done_in_time_knows_how_much_it_has() -> None:
    assert json.loads(ask("/api/slow?seconds=0", 5)["body"])["data"] is True
    envelope = json.loads(ask("/api/failing", 5)["body"])
    assert envelope["message"].startswith("internal error"), "a time of another kind"
    assert (
        json.loads(make_handler()(make_event("GET", "https://here/api/slow?seconds=0"), None)["body"])["data"] is False
    )


def test_a_limit_inside_another_is_never_longer() -> None:
    assert deadlines.get_remaining() == math.inf
    with deadlines.limit(5), deadlines.limit(50):
        assert 4 < deadlines.get_remaining() <= 5
        deadlines.check(4)
        with pytest.raises(OutOfTime):
            deadlines.check(6)
    deadlines.check(1e9)


def test_a_listing_ends_with_the_time() -> None:
    async def pages() -> AsyncIterator[list[Entry]]:
        while True:
            await asyncio.sleep(0)
            yield [Entry("a", 1, 0.0, False)]

    async def go() -> None:
        with deadlines.limit(0.05), pytest.raises(OutOfTime):
            await collect_entries(pages())

    asyncio.run(go())


def test_a_budget_covers_what_will_be_done_in_it_at_the_pace_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(deadlines, "PACE_SAMPLE_SECONDS", 2.0)
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now[0])
    budget = deadlines.TimeBudget()
    assert budget.covers(0, 1000)
    now[0] += deadlines.PACE_SAMPLE_SECONDS / 2
    assert budget.covers(1, 1000)  # too early to tell
    now[0] += deadlines.PACE_SAMPLE_SECONDS / 2
    assert [budget.covers(done, 1000) for done in (50, 200)] == [False, True]
    now[0] += deadlines.REQUEST_WORK_SECONDS
    assert not budget.covers(999, 1000)
    assert budget.get_seconds() == 0
    assert deadlines.unlimited().covers(1, 10**9)


def test_a_budget_leaves_the_end_of_a_functions_time_to_who_opens_the_task() -> None:
    with deadlines.limit(deadlines.TASK_REQUEST_MARGIN_SECONDS):
        assert not deadlines.TimeBudget().covers(0, 1)
    with deadlines.limit(deadlines.TASK_REQUEST_MARGIN_SECONDS + 5):
        assert 4 < deadlines.TimeBudget().get_seconds() <= 5
        assert deadlines.unlimited().covers(0, 1)
