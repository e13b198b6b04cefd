"""Kill the service at seeded instants, restart it, and compare with the model.

`SEED=17 pytest tests/crash` replays one seed; `SEEDS=1000` runs so many.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import servers
from tests.crash import harness
from tests.crash.harness import Report, World

GROUP = 25
LANES = 2  # services at once, each with seeds of its own
COUNT = int(os.environ.get("SEEDS", "50"))
ONLY = os.environ.get("SEED", "")


def groups() -> list[range]:
    if ONLY:
        return [range(int(ONLY), int(ONLY) + 1)]
    return [range(first, min(first + GROUP, COUNT)) for first in range(0, COUNT, GROUP)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 server that outlives the killed service."""
    with servers.moto_s3() as address:
        yield address


def lane(world: World, seeds: Sequence[int]) -> list[Report | str]:
    """The reports of the seeds; a text for the first that broke, which ends it."""
    done: list[Report | str] = []
    for seed in seeds:
        try:
            done.append(harness.run(world, seed))
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}\n{world.log()[-3000:]}"
            return [*done, f"{text}\nreplay: SEED={seed} pytest tests/crash"]
    return done


@pytest.mark.parametrize("seeds", groups(), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_killed_at_any_instant_the_work_ends_whole(seeds: range, tmp_path: Path, endpoint: str) -> None:
    begun = time.monotonic()
    shares = [share for share in (seeds[number::LANES] for number in range(LANES)) if share]
    with ExitStack() as stack, ThreadPoolExecutor(LANES) as pool:
        worlds = []
        for number in range(len(shares)):
            (folder := tmp_path / str(number)).mkdir()
            worlds.append(stack.enter_context(harness.world(folder, endpoint)))
        results = [one for done in pool.map(lane, worlds, shares) for one in done]
    assert not (broken := [one for one in results if isinstance(one, str)]), "\n\n".join(broken)
    reports = [one for one in results if isinstance(one, Report)]
    kills, met = sum(one.kills for one in reports), sum(one.met for one in reports)
    left, seconds = sum(len(one.orphans) for one in reports), time.monotonic() - begun
    print(f"{len(reports)} seeds: {kills} kills, {met} met work, {left} empty parts left, {seconds:.0f} s")
    assert len(reports) == len(seeds)
    assert met or len(seeds) < GROUP, "no kill met work under way"
