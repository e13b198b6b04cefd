"""Kill the service at every place that `mangrove.checkpoints` names; the work ends whole all the same."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from random import Random

import pytest

from mangrove import checkpoints
from tests import servers
from tests.crash import harness, trees
from tests.crash.harness import World
from tests.crash.jobs import Job, carried, given, unpacked

LARGE = 24 << 20  # bytes; several parts, also within one machine
EVERY = "SEEDS" in os.environ  # scene of a checkpoint; in `make test` one of each is enough
TREE = {"": None, "empty": None, "a/b/c/d.txt": b"d", "a/x.bin": b"x" * 5000, "zero": b""}

Scene = Callable[[World, str], Job]
_rng = Random(4)


def large() -> bytes:
    return trees.unlike(_rng, LARGE)


def tree(**more: bytes) -> trees.Tree:
    return trees.parents({**TREE, **more})


def sent(world: World, label: str) -> Job:
    return given("upload", world.backends["bucket"], label, "sent.bin", large())


def copied_up(world: World, label: str) -> Job:
    return carried("copy", world.backends["files"], world.backends["bucket"], label, "top", tree(large=large()))


def copied_down(world: World, label: str) -> Job:
    return carried("copy", world.backends["bucket"], world.backends["second"], label, "top", tree(large=large()))


def copied_over(world: World, label: str) -> Job:
    return carried("copy", world.backends["files"], world.backends["second"], label, "top", tree(large=large()))


def moved_up(world: World, label: str) -> Job:
    return carried("move", world.backends["second"], world.backends["bucket"], label, "top", tree(large=large()))


def moved_down(world: World, label: str) -> Job:
    return carried("move", world.backends["bucket"], world.backends["files"], label, "top", tree(large=large()))


def moved_over(world: World, label: str) -> Job:
    return carried("move", world.backends["files"], world.backends["second"], label, "top", tree(large=large()))


def fetched(world: World, label: str) -> Job:
    return given("offline_download", world.backends["bucket"], label, "fetched.bin", large())


def fetched_anew(world: World, label: str) -> Job:
    return given("offline_download", world.backends["second"], label, "fetched.bin", large(), ranges=False)


def fetched_small(world: World, label: str) -> Job:
    return given("offline_download", world.backends["bucket"], label, "fetched.txt", b"small")


def fetched_by_aria2(world: World, label: str) -> Job:
    return given("offline_download", world.backends["second"], label, "fetched.bin", large(), tool="aria2")


def unzipped(world: World, label: str) -> Job:
    return unpacked(
        world.backends["files"], world.backends["bucket"], label, "packed", tree(), "zip", put_into_new_dir=True
    )


def untarred(world: World, label: str) -> Job:
    return unpacked(world.backends["bucket"], world.backends["second"], label, "packed", tree(large=large()), "tar.gz")


def unpacked_from_here(world: World, label: str) -> Job:
    """The archive itself, of several parts, is brought into staging first."""
    backends = world.backends
    return unpacked(backends["bucket"], backends["files"], label, "packed", tree(large=large()), "7z", cache_full=True)


ALL: tuple[Scene, ...] = (sent, copied_over, moved_up, fetched, unzipped)
PARTS: tuple[Scene, ...] = (copied_up, copied_down, moved_over)
SCENES: dict[str, tuple[Scene, ...]] = {
    "queue.opened": (sent, moved_up, fetched, unzipped),
    "queue.chained": (fetched, unzipped),
    "step.acquired": ALL,
    "step.worked": ALL,
    "manifest.stored": (copied_over,),
    "copy.intended": PARTS,
    "copy.started": (*PARTS, sent, unpacked_from_here),
    "copy.ready": PARTS,
    "copy.part": (*PARTS, sent, moved_down, unpacked_from_here),
    "copy.parts": PARTS,
    "copy.finished": (*PARTS, moved_up, moved_down),
    "copy.whole": (moved_up, moved_down),
    "move.batch": (copied_over, copied_up, moved_up, moved_down),
    "move.verified": (moved_up, moved_down, moved_over),
    "move.removed": (moved_up, moved_down, moved_over),
    "move.tidied": (moved_up, moved_down, moved_over),
    "download.submitted": (fetched_by_aria2,),
    "download.intended": (fetched,),
    "download.started": (fetched, fetched_anew),
    "download.part": (fetched, fetched_anew),
    "download.finished": (fetched, fetched_anew),
    "download.whole": (fetched_small,),
    "download.chained": (fetched, fetched_by_aria2),
    "extract.cached": (unpacked_from_here,),
    "extract.folders": (unzipped,),
    "extract.member": (unzipped, untarred, unpacked_from_here),
    "extract.chained": (unzipped, unpacked_from_here),
    "settle.started": ALL,
    "settle.cleaned": ALL,
    "settle.done": ALL,
}
CASES = [
    (name, scene)
    for number, (name, fixtures) in enumerate(SCENES.items())
    for scene in (fixtures if EVERY else [fixtures[number % len(fixtures)]])
]
_labels = itertools.count()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with servers.moto_s3() as endpoint, harness.world(tmp_path_factory.mktemp("checkpoints"), endpoint) as world:
        yield world


@pytest.fixture(scope="module")
def aria2(world: World) -> Iterator[None]:
    if not shutil.which("aria2c"):
        pytest.skip("there is no aria2c here")
    with servers.aria2() as tool:
        world.client.ok("/api/admin/setting/set_aria2", uri=tool.uri, secret=tool.secret)
        yield


def test_every_checkpoint_is_passed_by_some_work() -> None:
    assert {*SCENES, "upload.staged"} == set(checkpoints.NAMES)


@pytest.mark.parametrize(("name", "scene"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_killed_at_a_checkpoint_the_work_ends_whole(
    world: World, name: str, scene: Scene, request: pytest.FixtureRequest
) -> None:
    world.clear()
    if scene is fetched_by_aria2:
        request.getfixturevalue("aria2")
    job = scene(world, str(next(_labels)))
    harness.stopped_at(world, job, name)
    world.settle(job.kinds)
    world.check_done([job])


def test_an_upload_that_was_received_and_not_opened_is_nowhere_seen(world: World) -> None:
    world.clear()
    job = sent(world, "staged")
    harness.stopped_at(world, job, "upload.staged")
    assert world.undone() == [] and world.tasks("upload", "done") == []
    assert job.there() == {} and job.target.orphans() == []
    (left,) = (world.data / "staging").iterdir()  # the sweep takes it away, a day later
    for path in left.iterdir():
        path.unlink()
    left.rmdir()
