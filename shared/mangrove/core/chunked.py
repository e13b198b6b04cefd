"""Work in chunks: very many items in steps of a few milliseconds, between which other tasks of the event loop run;
and bodies of files, which are asynchronous iterators of blocks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from mangrove.core.concurrency import ComputePool, compute_pools

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

CHUNK_ITEMS = 4096
CHUNK_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class _Done(Generic[Result]):
    result: Result


def chunked(
    function: Callable[Arguments, Generator[Any, None, Result]],
) -> Callable[Arguments, Coroutine[Any, Any, Result]]:
    """Make a coroutine function of a function that yields whenever other tasks may run.

    The first chunk of a call runs on the event loop, the rest in a thread.
    """

    @wraps(function)
    async def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        steps = function(*args, **kwargs)
        done = _advance(steps)
        return done.result if done is not None else await run_in_thread(steps, compute_pools().batches)

    return run


async def run_in_thread(steps: Generator[Any, None, Result], pool: ComputePool) -> Result:
    """Return the result of `steps`; all of it runs in a thread of the pool."""
    done = None
    while done is None:
        done = await pool.run(_advance, steps)
    return done.result


def _advance(steps: Generator[Any, None, Result]) -> _Done[Result] | None:
    end = time.perf_counter() + CHUNK_SECONDS
    try:
        while time.perf_counter() < end:
            next(steps)
    except StopIteration as stop:
        return _Done(stop.value)
    return None


async def iterate_chunked(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items; let other tasks run after each CHUNK_SECONDS."""
    end = time.perf_counter() + CHUNK_SECONDS
    for item in items:
        yield item
        if time.perf_counter() > end:
            await asyncio.sleep(0)
            end = time.perf_counter() + CHUNK_SECONDS


async def in_batches(items: Sequence[Item], size: int = 1000) -> AsyncIterator[Sequence[Item]]:
    """Yield the items in batches; let other tasks run between two of them."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


class PendingRows:
    """Rows of a long answer, which the writer of the answer encodes while it sends them."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self.pieces = pieces  # JSON objects, separated by commas; no piece is empty


async def split_chunks(blocks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield the bytes of a body in chunks of exactly `size`, the last one shorter."""
    waiting: list[bytes] = []
    length = 0
    async for block in blocks:
        start = 0
        while length + len(block) - start >= size:
            cut = start + size - length
            yield b"".join([*waiting, block[start:cut]])
            waiting, length, start = [], 0, cut
        if start < len(block):
            waiting.append(block[start:])
            length += len(block) - start
    if waiting:
        yield b"".join(waiting)


async def stream(content: bytes) -> AsyncIterator[bytes]:
    """Return a body of these bytes."""
    if content:
        yield content
