"""One body written to several storages concurrently, or to the one of them with free space."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem, StorageProblem
from mangrove.drivers.base import Driver, Entry, Upload

MAX_WAITING_CHUNKS = 4  # chunks of a body that the slowest of several targets may lag behind


async def write_all(targets: Sequence[tuple[Driver, TreePath]], body: AsyncIterator[bytes], upload: Upload) -> Entry:
    """Store the same file in all storages. If one of them refuses the body, the others store nothing either."""
    queues: list[asyncio.Queue[bytes | None]] = [asyncio.Queue(MAX_WAITING_CHUNKS) for _ in targets]

    async def feed() -> None:
        async for chunk in body:
            for queue in queues:
                await queue.put(chunk)
        for queue in queues:
            await queue.put(None)

    async def drain(queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        while (chunk := await queue.get()) is not None:
            yield chunk

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            writes = [
                group.create_task(driver.write(inner, drain(queue), upload))
                for (driver, inner), queue in zip(targets, queues, strict=True)
            ]
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return writes[0].result()


async def choose_by_free_space(drivers: Sequence[Driver], strict: bool) -> int:
    """Return the index of a random storage, weighted by its free bytes.

    Raise StorageProblem if none has any or, if `strict`, if one of them has none.
    """
    free: list[int] = []
    for driver in drivers:
        try:
            free.append((await driver.get_space()).free if driver.capabilities.get_space else 0)
        except Problem:
            free.append(0)
    if not any(free) or (strict and not all(free)):
        raise StorageProblem("none of same-name dirs has enough space")
    return random.choices(range(len(drivers)), free)[0]
