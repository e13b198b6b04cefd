"""Random changes in two processes that each keep tables of their own: a search finds what listings show after each.

The seed is printed with each failure; SEEDS in the environment adds more.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from secrets import token_hex

import pytest

from mangrove.core import runtime
from mangrove.core.problems import Problem
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.records import index_changes
from mangrove.search import folding, tables
from mangrove.search.index import SearchIndex
from mangrove.search.segments import IndexManifest, SegmentStore
from mangrove.tree import mounts
from mangrove.tree.operations import changes, strict_operations, transfers, uploads
from mangrove.tree.operations.change_log import ChangeLog
from mangrove.tree.operations.plans import TransferRequest
from tests.unit.search.search_env import SearchEnv
from tests.unit.search.walker import walk
from tests.unit.tree.environment import stream

FILES = ("a/x.txt", "a/b/y.txt", "a/b/c/z.txt", "b/x.txt", "c/deep/er/still/w.txt", "top.txt")
NAMES = ("a", "b", "c", "deep", "x.txt", "y.txt", "Ünï", "new")
STEPS = 40


@dataclass
class Process:
    """The state of one process."""

    index: SearchIndex
    journal: ChangeLog

    def enter(self) -> None:
        runtime.put(SearchIndex, self.index)
        runtime.put(ChangeLog, self.journal)


@pytest.fixture
def processes(searched: SearchEnv) -> Iterator[list[Process]]:
    made = [Process(SearchIndex(), ChangeLog()) for _ in range(2)]
    yield made
    for process in made:
        process.index.database.close()


class World:
    """One storage in another, an alias of a folder, and one of two; random changes of all of them."""

    def __init__(self, env: SearchEnv, seed: int) -> None:
        self.env, self.tree, self.dice = env, env.tree, random.Random(seed)
        self.tree.mount_disk("/disk", *FILES)
        self.tree.mount_disk("/disk/a/nested", "n.txt", "b/m.txt")
        self.tree.mount("/alias", "Alias", options={"paths": "/disk/a"})
        self.tree.mount("/both", "Alias", options={"paths": "one:/disk/b\ntwo:/disk/c"})
        self.tree.run(mounts.load())
        env.index()
        self.log: list[str] = []

    def choose_folder(self) -> str:
        rows = self.tree.run(walk(self.tree.access("/")))
        folders = [f"{row.parent}/{row.name}".replace("//", "/") for row in rows if row.is_dir]
        return self.dice.choice(sorted(path for path in folders if path not in ("/alias", "/both")))

    def choose_entry(self) -> tuple[str, str]:
        rows = sorted(self.tree.run(walk(self.tree.access("/"))))
        row = self.dice.choice([row for row in rows if row.parent != "/"])
        return str(row.parent), row.name

    def change(self) -> None:
        """Make one change; what is refused changes nothing."""
        verbs: list[Callable[[], None]] = [
            self.put, self.put, self.mkdir, self.rename, self.rename, self.move, self.copy, self.remove, self.replace,
            self.compact,
        ]  # fmt: skip
        verb = self.dice.choice(verbs)
        self.log.append(verb.__name__)
        try:
            verb()
        except Problem as problem:
            self.log[-1] += f" refused: {problem.message}"

    def note(self, *arguments: object) -> None:
        self.log[-1] += f" {' '.join(map(str, arguments))}"

    def put(self) -> None:
        path = "/".join([self.choose_folder(), *self.dice.choices(NAMES, k=self.dice.choice([1, 1, 2, 3]))])
        self.note(path)
        size = self.dice.randrange(9)
        access = self.tree.access(path, Right.WRITE)
        self.tree.run(uploads.write(access, stream(bytes(size)), Upload(size, 1.7e9, overwrite=True), hashes={}))

    def mkdir(self) -> None:
        path = "/".join([self.choose_folder(), *self.dice.choices(NAMES, k=self.dice.choice([1, 2]))])
        self.note(path)
        self.tree.run(changes.mkdir(self.tree.access(path, Right.WRITE)))

    def rename(self) -> None:
        (folder, name), new = self.choose_entry(), self.dice.choice(NAMES)
        self.note(folder, name, new)
        self.tree.run(transfers.rename(self.tree.access(f"{folder}/{name}", Right.RENAME), new, False))

    def replace(self) -> None:
        """As WebDAV and SFTP do it: to any path, over what is there."""
        (folder, name), target = self.choose_entry(), f"{self.choose_folder()}/{self.dice.choice(NAMES)}"
        self.note(folder, name, target)
        source = self.tree.access(f"{folder}/{name}", Right.MOVE)
        self.tree.run(strict_operations.rename(source, self.tree.access(target, Right.MOVE), True))

    def move(self) -> None:
        (folder, name), target = self.choose_entry(), self.choose_folder()
        self.note(folder, name, target)
        ends = self.tree.access(folder, Right.MOVE), self.tree.access(target, Right.MOVE)
        self.tree.run(transfers.transfer(TransferRequest(Right.MOVE, *ends, [name])))

    def copy(self) -> None:
        (folder, name), target = self.choose_entry(), self.choose_folder()
        self.note(folder, name, target)
        ends = self.tree.access(folder, Right.COPY), self.tree.access(target, Right.COPY)
        self.tree.run(transfers.transfer(TransferRequest(Right.COPY, *ends, [name])))

    def remove(self) -> None:
        folder, name = self.choose_entry()
        self.note(folder, name)
        self.tree.run(changes.remove(self.tree.access(folder, Right.DELETE), [name]))

    def compact(self) -> None:
        """Merge the changes so far into new segments."""
        for mount in self.tree.run(mounts.ready()).mounts:
            self.tree.run(merge(mount.storage.id))

    def compare(self) -> None:
        """A search finds what listings show. No folder has to be read for it but those that an alias shows, or in
        which a change failed."""
        behind = self.env.search("*").behind
        table = self.tree.run(mounts.ready())
        for mount in [table.by_id[id] for id in behind]:
            assert mount.redirects is not None or "refused" in self.log[-1]
            self.env.index(mount.path)
        listed = {(row.parent, row.name, row.is_dir) for row in self.tree.run(walk(self.tree.access("/")))}
        hits = self.env.search("*", count=10_000).hits
        shown = {(hit.parent, hit.name, hit.is_dir) for hit in hits}
        assert len(shown) == len(hits)
        assert shown == listed


async def merge(storage_id: int) -> None:
    store = runtime.get(SegmentStore)
    base, merged = await store.open(storage_id), index_changes.make_number(time.time())
    assert base is not None
    new = [change for change in index_changes.read_of(storage_id) if base.manifest.merged < change.number <= merged]
    folded = await folding.merge_changes(base, store.make_work_folder(storage_id), f"m{token_hex(4)}", new)
    for file in folded.fresh:
        await store.store(storage_id, file)
    manifest = IndexManifest(
        names=folded.names, folders=folded.folders, count=folded.count, folder_count=folded.folder_count, began=0.0,
        finished="", merged=merged,
    )  # fmt: skip
    await store.commit(storage_id, manifest)
    index_changes.write([], [change.number for change in new])


SEEDS = [*range(3), *range(100, 100 + int(os.environ.get("SEEDS", "0")))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("largest", [20_000, 0], ids=["tables", "segments"])
def test_a_search_after_each_change_equals_the_listings(
    searched: SearchEnv, processes: list[Process], monkeypatch: pytest.MonkeyPatch, seed: int, largest: int
) -> None:
    monkeypatch.setattr(tables, "MAX_NAMES_OF_SMALL_INDEX", largest)
    processes[0].enter()
    world = World(searched, seed)
    try:
        for _ in range(STEPS):
            processes[world.dice.randrange(2)].enter()
            world.change()
            for process in processes:
                process.enter()
                world.compare()
    except BaseException:
        print(f"seed {seed}:", *world.log, sep="\n")
        raise
