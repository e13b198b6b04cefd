"""Kill the service at every place that an index run passes; afterwards the index is equal to the tree."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

import httpx
import pytest

from mangrove.core import checkpoints, runtime
from mangrove.core.runtime import Runtime
from tests.support.indexes import Names, read_disk, read_index
from tests.support.service import Client, Service, fork_service

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("index checkpoints")]  # one service

SEEDS = int(os.environ.get("SEEDS", "0"))
WAIT_SECONDS = 30.0
NAMES = ("a", "b", "c", "ünï", "日本", "x y", "deep")
STORAGE = 1  # the one that a service begins with


class World:
    """A service that may be killed, and the folder that its storage shows."""

    def __init__(self, folder: Path) -> None:
        self._orders = folder / "orders"
        self._data = folder / "data"
        self.tree = self._data / "files"
        self.service: Service = fork_service(self._data, MANGROVE_KILL_AT=str(self._orders))
        self.client: Client = self.service.client()

    def die_at(self, name: str) -> None:
        """Let the service kill itself when it comes to that checkpoint."""
        self._orders.write_text(name)

    def wait_for_death(self) -> None:
        with suppress(TimeoutExpired):
            self.service.process.wait(WAIT_SECONDS)
        assert self.service.process.poll() is not None, "the run never came there"

    def restart(self) -> None:
        token = self.client.token
        self.client.http.close()
        self.service = fork_service(self._data, MANGROVE_KILL_AT=str(self._orders))
        self.client = Client(self.service.address, token)

    def settle(self) -> None:
        """Until no run is under way."""
        end = time.monotonic() + WAIT_SECONDS
        while not (progress := self.client.get("/api/admin/index/progress")["data"])["is_done"]:
            assert time.monotonic() < end, progress
            time.sleep(0.02)
        assert progress["error"] == ""

    def read(self) -> Names | None:
        """Return the content of the index on the disk."""
        with pytest.MonkeyPatch.context() as patch, runtime.use(Runtime()):
            patch.setenv("MANGROVE_DATA", str(self._data))
            return asyncio.run(read_index(STORAGE))

    def list_left(self) -> list[str]:
        """Return the files that no index needs."""
        index_names = {path.name for path in (self._data / "index" / str(STORAGE)).iterdir()}
        staged = [path.name for path in (self._data / "staging").iterdir() if path.name.startswith("index")]
        return staged + [name for name in index_names if name.startswith("work")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("index"))
    yield world
    if world.service.process.poll() is None:
        world.service.kill()


def change(tree: Path, rng: Random) -> None:
    """Make, rename and remove some files and folders."""
    for number in range(rng.randrange(5, 25)):
        folders = [tree, *(path for path in tree.rglob("*") if path.is_dir())]
        path = rng.choice(folders) / f"{rng.choice(NAMES)}{number}"
        match rng.randrange(4):
            case 0:
                if not path.exists():
                    path.mkdir()
            case 1 if len(folders) > 3:
                shutil.rmtree(rng.choice(folders[1:]))
            case 2 if len(folders) > 1:
                moved = rng.choice(folders[1:])
                if not path.is_relative_to(moved) and not path.exists():
                    moved.rename(path)
            case _:
                if path.parent.is_dir() and not path.is_dir():
                    path.write_bytes(bytes(number))


def build(client: Client) -> None:
    client.ok("/api/admin/index/build")


def update(client: Client) -> None:
    client.ok("/api/admin/index/update", paths=["/files"], max_depth=-1)


def clear(client: Client) -> None:
    client.ok("/api/admin/index/clear")


Ask = Callable[[Client], None]
INDEX = [name for name in checkpoints.NAMES if name.startswith("index.") and name != "index.dropped"]
ASKS: tuple[Ask, ...] = (build, update)
CASES = [
    (name, ask, seed)
    for number, name in enumerate(INDEX)
    for seed in range(max(SEEDS // 10, 1))
    for ask in (ASKS if SEEDS else [ASKS[number % 2]])
]
_seeds = itertools.count()


@pytest.mark.parametrize(("name", "ask", "seed"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_killed_at_a_checkpoint_the_index_is_equal_to_the_tree(world: World, name: str, ask: Ask, seed: int) -> None:
    world.settle()
    change(world.tree, Random(next(_seeds)))
    world.die_at(name)
    with suppress(httpx.TransportError):  # it may die before it can answer
        ask(world.client)
    world.wait_for_death()
    world.restart()
    world.settle()
    assert world.read() == read_disk(world.tree)
    assert world.list_left() == []


def test_kill_during_index_removal_leaves_none_and_next_is_complete(world: World) -> None:
    world.settle()
    world.die_at("index.dropped")
    with suppress(httpx.TransportError):
        clear(world.client)
    world.wait_for_death()
    world.restart()
    world.settle()
    assert world.read() is None
    build(world.client)
    world.settle()
    assert world.read() == read_disk(world.tree)
