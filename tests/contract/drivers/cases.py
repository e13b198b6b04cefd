"""Cases of the driver suite: each says which powers it needs, and runs on a fresh driver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangrove.drivers.base import Driver

Case = Callable[[Any], Awaitable[None]]
CASES: dict[str, tuple[Case, tuple[type, ...]]] = {}


def needs(*powers: type) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES[case.__name__] = (case, powers)
        return case

    return register


def run(start: Callable[[], Awaitable[Driver]], name: str) -> None:
    """Run one case on a fresh driver; skipped when it does not claim the powers."""
    case, powers = CASES[name]

    async def run_case() -> None:
        driver = await start()
        try:
            if not all(isinstance(driver, power) for power in powers):
                pytest.skip(f"{driver.name} does not claim {', '.join(power.__name__ for power in powers)}")
            await case(driver)
        finally:
            await driver.stop()

    asyncio.run(run_case())
