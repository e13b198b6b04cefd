"""Kill the service at every place that `mangrove.core.checkpoints` names; the work ends whole all the same."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from random import Random

import pytest

from mangrove.core import checkpoints
from tests import servers
from tests.crash import harness, trees
from tests.crash.harness import World
from tests.crash.jobs import Job, make_decompress, make_incoming, make_transfer

pytestmark = pytest.mark.xdist_group("checkpoints")  # one world

LARGE = 24 << 20  # bytes; several parts, also within one machine
RUNS_ALL_SCENES = "SEEDS" in os.environ  # else one scene of each checkpoint, as in `make test`
TREE = {"": None, "empty": None, "a/b/c/d.txt": b"d", "a/x.bin": b"x" * 5000, "zero": b""}

Scene = Callable[[World, str], Job]
_rng = Random(4)


def large() -> bytes:
    return trees.unlike(_rng, LARGE)


def tree(**more: bytes) -> trees.Tree:
    return trees.parents({**TREE, **more})


def send(world: World, label: str) -> Job:
    return make_incoming("upload", world.backends["bucket"], label, "sent.bin", large())


def copy_up(world: World, label: str) -> Job:
    return make_transfer("copy", world.backends["files"], world.backends["bucket"], label, "top", tree(large=large()))


def copy_down(world: World, label: str) -> Job:
    return make_transfer("copy", world.backends["bucket"], world.backends["second"], label, "top", tree(large=large()))


def copy_over(world: World, label: str) -> Job:
    return make_transfer("copy", world.backends["files"], world.backends["second"], label, "top", tree(large=large()))


def move_up(world: World, label: str) -> Job:
    return make_transfer("move", world.backends["second"], world.backends["bucket"], label, "top", tree(large=large()))


def move_down(world: World, label: str) -> Job:
    return make_transfer("move", world.backends["bucket"], world.backends["files"], label, "top", tree(large=large()))


def move_over(world: World, label: str) -> Job:
    return make_transfer("move", world.backends["files"], world.backends["second"], label, "top", tree(large=large()))


def fetch(world: World, label: str) -> Job:
    return make_incoming("offline_download", world.backends["bucket"], label, "fetched.bin", large())


def fetch_anew(world: World, label: str) -> Job:
    return make_incoming("offline_download", world.backends["second"], label, "fetched.bin", large(), ranges=False)


def fetch_small(world: World, label: str) -> Job:
    return make_incoming("offline_download", world.backends["bucket"], label, "fetched.txt", b"small")


def fetch_by_aria2(world: World, label: str) -> Job:
    return make_incoming("offline_download", world.backends["second"], label, "fetched.bin", large(), tool="aria2")


def unzip(world: World, label: str) -> Job:
    return make_decompress(
        world.backends["files"], world.backends["bucket"], label, "packed", tree(), "zip", put_into_new_dir=True
    )


def untar(world: World, label: str) -> Job:
    return make_decompress(
        world.backends["bucket"], world.backends["second"], label, "packed", tree(large=large()), "tar.gz"
    )


def extract_cached(world: World, label: str) -> Job:
    """The archive itself, of several parts, is brought into staging first."""
    backends = world.backends
    return make_decompress(
        backends["bucket"], backends["files"], label, "packed", tree(large=large()), "7z", cache_full=True
    )


ALL: tuple[Scene, ...] = (send, copy_over, move_up, fetch, unzip)
PARTS: tuple[Scene, ...] = (copy_up, copy_down, move_over)
SCENES: dict[str, tuple[Scene, ...]] = {
    "queue.opened": (send, move_up, fetch, unzip),
    "queue.chained": (fetch, unzip),
    "step.acquired": ALL,
    "step.worked": ALL,
    "manifest.stored": (copy_over,),
    "copy.intended": PARTS,
    "copy.started": (*PARTS, send, extract_cached),
    "copy.ready": PARTS,
    "copy.part": (*PARTS, send, move_down, extract_cached),
    "copy.parts": PARTS,
    "copy.finished": (*PARTS, move_up, move_down),
    "copy.whole": (move_up, move_down),
    "move.batch": (copy_over, copy_up, move_up, move_down),
    "move.verified": (move_up, move_down, move_over),
    "move.removed": (move_up, move_down, move_over),
    "move.tidied": (move_up, move_down, move_over),
    "download.submitted": (fetch_by_aria2,),
    "download.intended": (fetch,),
    "download.started": (fetch, fetch_anew),
    "download.part": (fetch, fetch_anew),
    "download.finished": (fetch, fetch_anew),
    "download.whole": (fetch_small,),
    "download.chained": (fetch, fetch_by_aria2),
    "extract.cached": (extract_cached,),
    "extract.folders": (unzip,),
    "extract.member": (unzip, untar, extract_cached),
    "extract.chained": (unzip, extract_cached),
    "settle.started": ALL,
    "settle.cleaned": ALL,
    "settle.done": ALL,
}
DEFAULT_CHECKPOINTS = (  # those that `make test` has
    "queue.opened", "copy.part", "move.removed", "download.part", "extract.member",
)  # fmt: skip
CASES = [
    pytest.param(name, scene, marks=() if name in DEFAULT_CHECKPOINTS else pytest.mark.long)
    for number, (name, fixtures) in enumerate(SCENES.items())
    for scene in (fixtures if RUNS_ALL_SCENES else [fixtures[number % len(fixtures)]])
]
_labels = itertools.count()


@pytest.fixture(scope="module")
def aria2(world: World) -> Iterator[None]:
    if not shutil.which("aria2c"):
        pytest.skip("there is no aria2c here")
    with servers.aria2() as tool:
        world.client.ok("/api/admin/setting/set_aria2", uri=tool.uri, secret=tool.secret)
        world.save(aria2_http="true")
        yield


def test_every_checkpoint_is_passed_by_some_work() -> None:
    elsewhere = {name for name in checkpoints.NAMES if name.startswith("index.")}  # see test_index.py
    elsewhere |= {name for name in checkpoints.NAMES if name.startswith("trash.")}  # see test_trash.py
    elsewhere |= {name for name in checkpoints.NAMES if name.startswith("compress.")}  # see test_compress.py
    elsewhere |= {"upload.staged", "remove.batch"}  # see below, and test_large_folders.py
    assert {*SCENES, *elsewhere} == set(checkpoints.NAMES)


@pytest.mark.parametrize(("name", "scene"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_killed_at_a_checkpoint_the_work_ends_whole(
    world: World, name: str, scene: Scene, request: pytest.FixtureRequest
) -> None:
    world.clear()
    if scene is fetch_by_aria2:
        request.getfixturevalue("aria2")
    job = scene(world, str(next(_labels)))
    harness.stop_at(world, job, name)
    world.settle(job.kinds)
    world.check_done([job])


def test_an_upload_that_was_received_and_not_opened_is_nowhere_seen(world: World) -> None:
    world.clear()
    job = send(world, "staged")
    harness.stop_at(world, job, "upload.staged")
    assert world.undone() == [] and world.tasks("upload", "done") == []
    assert job.there() == {} and job.target.orphans() == []
    staged = (world.data / "staging").iterdir()  # the sweep takes it away, a day later
    (left,) = (path for path in staged if not path.name.startswith("index-"))
    for path in left.iterdir():
        path.unlink()
    left.rmdir()
