"""The choice of folders to watch, and the report of their changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.standalone import disk_watch
from mangrove.standalone.disk_watch import WatchedRoot, choose_watchable, count_folders, find_roots, report
from tests.unit.tree.builders import mount

LIMIT = 10


def make_folders(root: Path, count: int) -> None:
    root.mkdir()
    for number in range(count - 1):
        (root / str(number)).mkdir()


@pytest.mark.parametrize("count", [1, LIMIT, LIMIT + 1])
def test_folders_are_counted_up_to_the_limit(tmp_path: Path, count: int) -> None:
    make_folders(tmp_path / "root", count)
    assert count_folders(str(tmp_path / "root"), LIMIT) == (count if count <= LIMIT else None)
    assert count_folders(str(tmp_path / "none"), LIMIT) == 0


def test_storages_share_the_limit_of_watched_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "MAX_WATCHED_FOLDERS", LIMIT)
    roots = []
    for name, count in (("a", LIMIT - 1), ("b", 2), ("c", 1)):
        make_folders(tmp_path / name, count)
        roots.append(WatchedRoot(mount(f"/{name}"), str(tmp_path / name)))
    assert choose_watchable(roots) == [roots[0], roots[2]]


def test_storages_without_the_option_are_not_watched() -> None:
    assert find_roots([mount("/a"), mount("/b", driver="S3")]) == {}


@pytest.mark.parametrize(
    ("path", "inner"),
    [("/r", "/"), ("/r/a/b", "/a/b"), ("/r2/a", None), ("/r/.mangrove-x", None), ("/r/a\nb", None)],
)
def test_path_of_the_disk_is_a_path_of_the_storage(path: str, inner: str | None) -> None:
    assert WatchedRoot(mount("/a"), "/r").find_inner(path) == inner


def test_too_many_changes_are_a_change_of_the_whole_storage(records: None) -> None:
    root = WatchedRoot(mount("/a"), "/r")
    key = root.mount.storage.id, "/"
    before = change_counters().read(Topic.TREE, key)
    paths = [f"/r/{number}/a" for number in range(disk_watch.MAX_FOLDERS_PER_BATCH + 1)]
    asyncio.run(report(root, paths))
    assert change_counters().read(Topic.TREE, key) == before + 1
