"""Work on very many things in slices of a few milliseconds, so that nobody else has to wait for the whole of it."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from mangrove.core import runtime
from mangrove.core.concurrency import ComputePool, ComputePools

Item = TypeVar("Item")
Result = TypeVar("Result")

SLICE = 4096  # things that are handled at once
SLICE_SECONDS = 0.002
SAMPLES = 8  # of each sorted run


@dataclass(frozen=True, slots=True)
class _Done(Generic[Result]):
    result: Result


async def run_in_slices(steps: Generator[Any, None, Result]) -> Result:
    """What `steps` returns; it yields whenever others may have their turn. Its first slice runs right here."""
    done = _advance(steps)
    return done.result if done is not None else await run_in_thread(steps, runtime.get(ComputePools).batches)


async def run_in_thread(steps: Generator[Any, None, Result], pool: ComputePool) -> Result:
    """The same, all of it in a thread."""
    done = None
    while done is None:
        done = await pool.run(_advance, steps)
    return done.result


def _advance(steps: Generator[Any, None, Result]) -> _Done[Result] | None:
    end = time.perf_counter() + SLICE_SECONDS
    try:
        while time.perf_counter() < end:
            next(steps)
    except StopIteration as stop:
        return _Done(stop.value)
    return None


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """The items; between two of them others have their turn when the last turn is long enough ago."""
    end = time.perf_counter() + SLICE_SECONDS
    for item in items:
        yield item
        if time.perf_counter() > end:
            await asyncio.sleep(0)
            end = time.perf_counter() + SLICE_SECONDS


async def in_batches(items: Sequence[Item], size: int = 1000) -> AsyncIterator[Sequence[Item]]:
    """The items in batches; between two of them others have their turn."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


def sort_in_slices(items: Sequence[Item], key: Callable[[Item], Any] | None = None) -> Iterator[Sequence[Item]]:
    """`sorted(items, key=key)` in parts one behind the other, some of them empty; each takes a few milliseconds.

    Sorted runs of SLICE items are cut at the same keys, and the pieces between two cuts sorted together. Without a key
    the items compare with each other, which their type does not say.
    """
    runs: list[list[Item]] = []
    for start in range(0, len(items), SLICE):
        runs.append(sorted(items[start : start + SLICE], key=key))  # type: ignore[type-var, arg-type]
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
            yield from pieces  # of one and the same key
        else:
            yield sorted(chain.from_iterable(pieces), key=key)  # type: ignore[type-var, arg-type]


def _choose_cuts(runs: Sequence[Sequence[Item]], key: Any) -> list[tuple[Any, Any]]:
    """About as many keys as there are runs, each with the function that finds it: one that many items have is cut out
    on both sides."""
    samples = [run[index] for run in runs for index in range(0, len(run), SLICE // SAMPLES)]
    keys = sorted(samples if key is None else map(key, samples))
    cuts: list[tuple[Any, Any]] = []
    for one in keys[SAMPLES::SAMPLES]:
        if not cuts or cuts[-1][0] != one:
            cuts.append((one, bisect_left))
        elif cuts[-1][1] is bisect_left:
            cuts.append((one, bisect_right))
    return cuts
