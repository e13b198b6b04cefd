"""Operations on large folders of a bucket that continue as a task, and are killed: they end completely.

The bucket's server is as slow as a test requires, so that a request has no time for the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from mangrove.drivers.s3 import driver as s3
from tests.crash import harness, trees
from tests.crash.backends import Bucket
from tests.crash.harness import World
from tests.crash.jobs import Broken, make_rename
from tests.servers.object_store import object_store

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("large folders")]  # one world at a time

ENTRY_COUNT = 200  # entries that take longer to remove than a request may, each DELETE_MILLISECONDS
DELETE_MILLISECONDS = 250.0
FOLDER_COUNT = 14  # that take longer to remove than a request may, each POST_MILLISECONDS
POST_MILLISECONDS = 2000.0
TASK_SECONDS = 300.0
MAX_ATTEMPTS = 3


@contextmanager
def open_world(folder: Path, **milliseconds: float) -> Iterator[World]:
    with object_store(**milliseconds) as endpoint, harness.world(folder, endpoint) as world:
        world.save(auto_update_index="false", search_index="none")  # its tasks pass some of these checkpoints, too
        yield world


@pytest.mark.parametrize("name", ["manifest.stored", "move.batch", "move.verified", "move.removed", "settle.cleaned"])
def test_a_rename_that_is_killed_ends_whole(tmp_path: Path, name: str) -> None:
    """At every instant each file is whole under the old name or the new one."""
    files = {f"{number % 7}/{number:04}": str(number).encode() for number in range(s3.MAX_OBJECTS_WITHOUT_TASK + 1)}
    with open_world(tmp_path) as world:
        job = make_rename(world.backends["bucket"], "", "large", trees.parents({"": None, **files}))
        harness.stop_at(world, job, name, TASK_SECONDS)
        world.settle(job.kinds, TASK_SECONDS)
        world.check_done([job])


def stop_at(
    world: World, name: str, fill: Callable[[], None], verb: str, *, when_answered: bool = False, **body: Any
) -> None:
    """Ask for something, see that the service kills itself at the checkpoint `name`, and restart it; again where it was
    the index of a new service that came there first, and nobody was told that anything is done. `when_answered`: the
    task is at work for long enough for the order to be given then."""
    for _ in range(MAX_ATTEMPTS):
        fill()
        if not when_answered:
            world.die_at(name)
        with suppress(httpx.TransportError):  # it may die before it can answer
            world.client.ok(f"/api/fs/{verb}", **body)
        if when_answered:
            world.die_at(name)
        if not world.has_died(TASK_SECONDS):
            raise Broken(f"the work never came to {name}: {world.undone()}")
        world.restart()
        if world.tasks("move", "undone") or world.tasks("move", "done"):
            return
    raise Broken(f"{name} was never met by a task of {verb}")


def check_one_task(world: World) -> None:
    """The task has ended well, and nothing of it is left."""
    world.settle(["move"], TASK_SECONDS)
    (row,) = world.tasks("move", "done")
    assert (row["state"], row["error"]) == (2, "")
    assert not [*(world.data / "staging").rglob("*")]


@pytest.mark.parametrize("name", ["queue.opened", "step.acquired", "remove.batch", "step.worked", "settle.cleaned"])
def test_a_removal_that_is_killed_ends_complete(tmp_path: Path, name: str) -> None:
    """Nothing but what was named is removed at any instant; all of that is at the end."""
    names = [f"{number:03}" for number in range(ENTRY_COUNT)]
    with open_world(tmp_path, DELETE=DELETE_MILLISECONDS) as world:
        bucket = world.backends["bucket"]
        assert isinstance(bucket, Bucket)
        existing = {"d/kept": b"kept", "d/0000/below": b"x", "other": b"other"}

        def fill() -> None:
            for key, content in (existing | {f"d/{name_left}": b"x" for name_left in names}).items():
                bucket.put(key, content)

        stop_at(world, name, fill, "remove", dir="/bucket/d", names=names)
        left = set(bucket.names("d"))
        assert (
            {key for key in existing if key.startswith("d/")}
            <= left
            <= {*existing, *(f"d/{name_left}" for name_left in names)}
        )
        check_one_task(world)
        assert set(bucket.names("d")) == {"d/kept", "d/0000/below"}
        assert bucket.tree("other") != {}


@pytest.mark.parametrize("name", ["manifest.stored", "move.tidied", "settle.cleaned"])
def test_a_removal_of_empty_folders_that_is_killed_ends_complete(tmp_path: Path, name: str) -> None:
    """A folder that holds a file stays, with what is above it."""
    with open_world(tmp_path, POST=POST_MILLISECONDS) as world:
        bucket = world.backends["bucket"]
        assert isinstance(bucket, Bucket)

        def fill() -> None:
            for number in range(FOLDER_COUNT):
                bucket.put(f"d/{number:02}/deep", None)
            bucket.put("d/full/deep/file", b"x")

        is_late = name != "manifest.stored"
        stop_at(world, name, fill, "remove_empty_directory", when_answered=is_late, src_dir="/bucket/d")
        assert bucket.names("d") == ["d/full/deep/file"]
        check_one_task(world)
        assert set(bucket.tree("d")) == {"", "full", "full/deep", "full/deep/file"}
