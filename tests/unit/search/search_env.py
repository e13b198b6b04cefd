"""A tree whose storages have an index, and the searches of one user in it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import count
from typing import Any

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFolder
from mangrove.drivers.base import list_all
from mangrove.records import index_changes
from mangrove.search import words
from mangrove.search.find import HitPage, find
from mangrove.search.index import search_index
from mangrove.search.query import Filters
from mangrove.search.segments import IndexManifest, SegmentStore
from mangrove.search.writing import FolderWriter, SegmentWriter, finish
from mangrove.tree import mounts
from mangrove.tree.mounts import Mount
from mangrove.tree.operations.change_log import ChangeLog
from tests.unit.tree.environment import TreeEnv

_numbers = count()


class SearchEnv:
    """`tree`: its storages, rules and user."""

    def __init__(self, tree: TreeEnv) -> None:
        self.tree = tree
        tree.set(search_index="database", auto_update_index="true")

    def close(self) -> None:
        search_index().database.close()

    def index(self, *mount_paths: str) -> None:
        """Write the index of these storages, by default of all, as the machine does without concurrent changes."""
        for mount in self.tree.run(mounts.ready()).mounts:
            if not mount_paths or mount.path in mount_paths:
                self.tree.run(_write_index(mount))
                index_changes.delete_of(mount.storage.id)
        runtime.put(ChangeLog, ChangeLog())  # nothing is known to be logged

    def search(
        self, keywords: str, parent: str = "/", start: int = 0, count: int = 1000, password: str = "", **filters: Any
    ) -> HitPage:
        access = self.tree.access(parent, password=password)
        return self.tree.run(find(access, Filters(words.parse(keywords), **filters), start, count))

    def find(self, keywords: str, parent: str = "/", **options: Any) -> list[str]:
        """The tree paths of what is found, in order; the total is their number."""
        result = self.search(keywords, parent, **options)
        assert result.total == len(result.hits)
        return [str(hit.parent / hit.name) for hit in result.hits]


async def _write_index(mount: Mount) -> None:
    store, driver = runtime.get(SegmentStore), await mount.get_driver()
    folder, number = store.make_work_folder(mount.storage.id), next(_numbers)
    names, folders = SegmentWriter(folder, f"names-{number}"), FolderWriter(folder, f"folders-{number}")
    waiting = [TreePath("/")]
    for id, path in enumerate(waiting):  # which grows
        try:
            entries = await list_all(driver, path)
        except (EntryNotFound, NotAFolder):  # what an alias shows
            continue
        folders.add([(id, path)])
        names.add(id, entries)
        waiting += [path / entry.name for entry in entries if entry.is_dir]
    files = await finish(names, folders)
    for file in files:
        await store.store(mount.storage.id, file)
    made = IndexManifest(
        names=[files[0].name],
        folders=[files[1].name],
        count=names.count,
        folder_count=folders.count,
        began=0.0,
        finished=datetime.now(UTC).isoformat(),
        merged=index_changes.make_number(time.time() + 1e-3),
    )
    await store.commit(mount.storage.id, made)
