"""Which of several storages has room."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mangrove.core.problems import Problem, StorageProblem
from mangrove.drivers.base import Driver, Space


async def choose_by_free_space(drivers: Sequence[Driver], strict: bool) -> int:
    """The position of one of them at random, weighted by the bytes that are free there; StorageProblem when none has
    any, or, if `strict`, when one of them has none."""
    free: list[int] = []
    for driver in drivers:
        try:
            free.append((await driver.get_space()).free if isinstance(driver, Space) else 0)
        except Problem:
            free.append(0)
    if not any(free) or (strict and not all(free)):
        raise StorageProblem("none of same-name dirs has enough space")
    return random.choices(range(len(drivers)), free)[0]
