"""Kill the service at seeded instants, restart it, and compare with the model.

`SEEDS=1000 make crash` runs so many. A pack is SEEDS_PER_PACK seeds, which share a service and its kills. A failure
tells how to run it again.
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

pytestmark = pytest.mark.xdist_group("crash")  # two concurrent services are enough

PACKS_PER_TEST = 17
SEEDS_PER_PACK = 3
LANES = 2  # concurrent services, each with packs of its own
COUNT = int(os.environ.get("SEEDS", "4"))
SELECTED_SEEDS = [int(seed) for seed in os.environ.get("SEED", "").split(",") if seed]

Pack = list[int]


def groups() -> list[list[Pack]]:
    seeds = list(range(COUNT))
    packs = (
        [SELECTED_SEEDS]
        if SELECTED_SEEDS
        else [seeds[first : first + SEEDS_PER_PACK] for first in range(0, COUNT, SEEDS_PER_PACK)]
    )
    return [packs[first : first + PACKS_PER_TEST] for first in range(0, len(packs), PACKS_PER_TEST)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 server that outlives the killed service."""
    with servers.moto_s3() as address:
        yield address


def lane(world: World, packs: Sequence[Pack]) -> list[Report | str]:
    """The reports of the packs; a text for the first that broke, which ends it."""
    done: list[Report | str] = []
    for pack in packs:
        try:
            done.append(harness.run(world, pack))
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}\n{world.log()[-3000:]}"
            return [*done, f"{text}\nreplay: SEED={','.join(map(str, pack))} make crash"]
    return done


@pytest.mark.parametrize("packs", groups(), ids=lambda packs: f"{packs[0][0]}-{packs[-1][-1]}")
def test_killed_at_any_instant_the_work_ends_whole(packs: list[Pack], tmp_path: Path, endpoint: str) -> None:
    begun = time.monotonic()
    shares = [share for share in (packs[number::LANES] for number in range(LANES)) if share]
    with ExitStack() as stack, ThreadPoolExecutor(LANES) as pool:
        worlds = []
        for number in range(len(shares)):
            (folder := tmp_path / str(number)).mkdir()
            worlds.append(stack.enter_context(harness.world(folder, endpoint)))
        results = [outcome for done in pool.map(lane, worlds, shares) for outcome in done]
    assert not (broken := [outcome for outcome in results if isinstance(outcome, str)]), "\n\n".join(broken)
    reports = [outcome for outcome in results if isinstance(outcome, Report)]
    seeds, jobs = sum(outcome.seeds for outcome in reports), sum(outcome.jobs for outcome in reports)
    kills, met, seconds = (
        sum(outcome.kills for outcome in reports),
        sum(outcome.met for outcome in reports),
        time.monotonic() - begun,
    )
    print(f"{seeds} seeds, {jobs} jobs: {kills} kills, {met} met work, {seconds:.0f} s")
    assert seeds == sum(map(len, packs))
    assert met or len(packs) < PACKS_PER_TEST, "no kill met work under way"
