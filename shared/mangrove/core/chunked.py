"""Work in chunks: very many items in steps of a few milliseconds, between which other tasks of the event loop run;
and bodies of files, which are asynchronous iterators of blocks.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import Any, Generic, ParamSpec, TypeVar

from mangrove.core.concurrency import ComputePool, compute_pools

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

CHUNK_ITEMS = 4096
CHUNK_SECONDS = 0.002
SAMPLES_PER_RUN = 8  # of each sorted run


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


def sort_chunked(items: Sequence[Item], key: Callable[[Item], Any] | None = None) -> Iterator[Sequence[Item]]:
    """Yield `sorted(items, key=key)` in consecutive parts, some of them empty; each takes a few milliseconds.

    Sorted runs of CHUNK_ITEMS items are cut at the same keys, and the pieces between two cuts are sorted together.
    Without a key the items must be comparable, which the type does not express.
    """
    runs: list[list[Item]] = []
    for start in range(0, len(items), CHUNK_ITEMS):
        runs.append(sorted(items[start : start + CHUNK_ITEMS], key=key))  # type: ignore[type-var, arg-type]
        yield ()
    if len(runs) < 2:
        yield from runs
        return
    starts = [0] * len(runs)
    for cut, find in [*_choose_cuts(runs, key), (None, None)]:
        pieces = []
        for number, run in enumerate(runs):
            stop = len(run) if find is None else find(run, cut, starts[number], key=key)
            pieces.append(run[starts[number] : stop])
            starts[number] = stop
        if find is bisect_right:
            yield from pieces  # all of one key
        else:
            yield sorted(chain.from_iterable(pieces), key=key)  # type: ignore[type-var, arg-type]


def _choose_cuts(runs: Sequence[Sequence[Item]], key: Any) -> list[tuple[Any, Any]]:
    """Return about as many keys as there are runs, each with the function that finds its place. A key that many items
    have is cut on both sides."""
    samples = [run[index] for run in runs for index in range(0, len(run), CHUNK_ITEMS // SAMPLES_PER_RUN)]
    keys = sorted(samples if key is None else map(key, samples))
    cuts: list[tuple[Any, Any]] = []
    for cut in keys[SAMPLES_PER_RUN::SAMPLES_PER_RUN]:
        if not cuts or cuts[-1][0] != cut:
            cuts.append((cut, bisect_left))
        elif cuts[-1][1] is bisect_left:
            cuts.append((cut, bisect_right))
    return cuts


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
