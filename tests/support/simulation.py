"""Many concurrent executions of a machine, in an account that runs few functions at a time, in simulated time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mangrove.standalone.machines import ExecutionFailed, load_machine
from mangrove.tasks.core.leases import NoSlot

THROTTLE = type("Lambda.TooManyRequestsException", (Exception,), {})
CALL_SECONDS = {"Plan": 2.0, "Move": 20.0, "Settle": 1.0}  # of each state
WORK_STATES = ("Plan", "Move")  # what takes a slot


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop in which sleepers wake immediately, in the right order."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> Any:
            self._now += timeout or 0.0
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


@dataclass
class Account:
    """`concurrency`: calls that run at once; `slots`: tasks that work at once."""

    concurrency: int
    slots: int
    ended: Counter[str] = field(default_factory=Counter)  # the failures that Settle was called with, "" for none
    refused: Counter[str] = field(default_factory=Counter)
    most: int = 0
    seconds: float = 0.0
    attempts: int = 0  # of one execution, at most
    _running: int = 0
    _working: int = 0

    def run(self, count: int) -> None:
        """Run so many transfers to their ends."""
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(self._run(count))

    async def _run(self, count: int) -> None:
        machine, _ = load_machine("transfer")
        calls: Counter[str] = Counter()

        async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
            calls[value["tid"]] += 1
            await self._call(name, value)
            return {"tid": value["tid"], "more": False, "seconds": 0, "shared": False}

        async def execute(number: int) -> None:
            try:
                await machine.run({"tid": f"t{number}"}, work)
            except ExecutionFailed:
                self.ended["never settled"] += 1

        await asyncio.gather(*map(execute, range(count)))
        self.seconds = asyncio.get_running_loop().time()
        self.attempts = max(calls.values())

    async def _call(self, name: str, value: dict[str, Any]) -> None:
        if self._running >= self.concurrency:
            self.refused["throttled"] += 1
            raise THROTTLE
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await self._do(name)
        finally:
            self._running -= 1
        if name == "Settle":
            self.ended[value.get("failure", {}).get("Error", "")] += 1

    async def _do(self, name: str) -> None:
        if name not in WORK_STATES:
            await asyncio.sleep(CALL_SECONDS[name])
            return
        if self._working >= self.slots:
            self.refused["no slot"] += 1
            await asyncio.sleep(0.05)
            raise NoSlot
        self._working += 1
        try:
            await asyncio.sleep(CALL_SECONDS[name])
        finally:
            self._working -= 1
