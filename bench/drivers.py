"""`python -m bench drivers`: each driver on a real server, beside the library that it uses, in the same run.

Every figure is of a process of its own, which does nothing else: what its memory grew by is what the work needs.
Nothing is asserted; `!` marks what is more than SLOWER times the library's figure, or grew by more than MOST_GROWTH.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import libraries
from bench.environment import fill
from bench.libraries import BLOCK, Library
from bench.memory import Growth
from bench.protocols import PROTOCOLS, Protocol, Served, fill_crypt
from bench.table import describe_machine

SLOWER, MOST_GROWTH = 1.2, 64  # times the library's figure, and MiB
STATS = 200  # at once
ROUNDS = 3  # the median counts
FORMAT = "{:<28} | {:<34} | {:>12} | {:>12} | {:>6} | {:>10} | {:>10}"
HEADS = ("server", "work", "driver", "library", "times", "grew", "library's")


@dataclass(frozen=True, slots=True)
class Work:
    """One measurement: `count` entries to list or to ask for, or a file of so many bytes to read or write."""

    name: str
    verb: str
    count: int

    @property
    def is_transfer(self) -> bool:
        return self.verb in {"read", "write"}


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds, and the bytes by which the memory of the process grew."""

    seconds: float
    growth: int


def measure(protocol: str, side: str, options: dict[str, Any], work: Work) -> Figure:
    """Measure in this process; `side` is `driver` or `library`."""
    return asyncio.run(_measure(protocol, side, options, work))


async def _measure(protocol: str, side: str, options: dict[str, Any], work: Work) -> Figure:
    kind: type[Library] = PROTOCOLS[protocol].library if side == "library" else libraries.Mangrove
    subject = kind(protocol, options)
    await subject.start()
    try:
        await subject.stat("/warm.txt")
        taken = []
        with Growth(os.getpid()) as growth:
            for _ in range(1 if work.is_transfer or work.count > 10_000 else ROUNDS):
                began = time.perf_counter()
                await _do(subject, work)
                taken.append(time.perf_counter() - began)
    finally:
        await subject.stop()
    return Figure(statistics.median(taken), growth.bytes)


async def _do(subject: Library, work: Work) -> None:
    match work.verb:
        case "list":
            assert await subject.list(f"/n{work.count}") == work.count
        case "read":
            assert await subject.read("/large.bin") == work.count
        case "write":
            await subject.write(f"/written by {type(subject).__name__}.bin", work.count // BLOCK)
        case _:
            await subject.stat_all([f"/n{work.count}/file {number:06}.txt" for number in range(work.count)])


def run_apart(protocol: str, side: str, served: Served, work: Work) -> Figure:
    """The same in a new process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(measure, protocol, side, served.options, work).result()


def list_works(size: int, entries: list[int]) -> list[Work]:
    """The lines for each server."""
    mib = size >> 20
    return [
        *(Work(f"list {count:,} entries, s", "list", count) for count in entries),
        Work(f"{STATS} concurrent stats, s", "stat", STATS),
        Work(f"read {mib:,} MiB, MB/s", "read", size),
        Work(f"write {mib:,} MiB, MB/s", "write", size),
    ]


def prepare(served: Served, size: int, entries: list[int]) -> None:
    """The files that are listed, asked for and read, put where the server has them."""
    for count in sorted({*entries, STATS}):
        fill(served.folder / f"n{count}", count)
    (served.folder / "warm.txt").write_bytes(b"warm")
    with (served.folder / "large.bin").open("wb") as file:
        for _ in range(0, size, BLOCK):
            file.write(os.urandom(BLOCK))
    if "beside" in served.options:
        asyncio.run(fill_crypt(served))


def format_row(server: str, work: Work, ours: Figure, theirs: Figure) -> str:
    """A line of the table."""
    times = ours.seconds / theirs.seconds
    value, beside = (work.count / 1e6 / one.seconds if work.is_transfer else one.seconds for one in (ours, theirs))
    grew, there = (one.growth / (1 << 20) for one in (ours, theirs))
    return FORMAT.format(
        server,
        work.name,
        f"{value:,.3g}" if value < 100 else f"{value:,.0f}",
        f"{beside:,.3g}" if beside < 100 else f"{beside:,.0f}",
        f"{'! ' if times > SLOWER else ''}{times:.2f}",
        f"{'! ' if grew > MOST_GROWTH else ''}{grew:.0f} MiB",
        f"{there:.0f} MiB",
    )


def print_table(folder: Path, only: str, size: int, entries: list[int]) -> bool:
    """Measure and print; whether all could be measured."""
    print(f"{describe_machine()}\n{FORMAT.format(*HEADS)}\n{'-' * len(FORMAT.format(*HEADS))}", flush=True)
    done = True
    for name, protocol in PROTOCOLS.items():
        if only.lower() in name.lower():
            done &= _print_protocol(folder / name.replace(" ", "-"), name, protocol, size, entries)
    return done


def _print_protocol(folder: Path, name: str, protocol: Protocol, size: int, entries: list[int]) -> bool:
    if protocol.missing:
        print(FORMAT.format(name, protocol.missing, "", "", "", "", ""), flush=True)
        return True
    folder.mkdir()
    folder.chmod(0o755)
    with ExitStack() as stack:
        served = stack.enter_context(protocol.serve(folder))
        prepare(served, size, entries)
        for work in list_works(size, entries):
            try:
                ours, theirs = (run_apart(name, side, served, work) for side in ("driver", "library"))
            except Exception as error:  # the other lines are worth having
                print(FORMAT.format(name, work.name, "failed", "", "", "", ""), repr(error)[:200], flush=True)
                return False
            print(format_row(name, work, ours, theirs), flush=True)
    return True
