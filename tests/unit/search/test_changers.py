"""The user who changed a file last, as the log of changes, the tables and the segments know it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotReadable
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.records import users
from mangrove.records.index_changes import ChangeKind, IndexChange, IndexedName
from mangrove.search import tables
from mangrove.search.changers import find_changer
from mangrove.search.columns import read_names
from mangrove.search.folding import Fresh, fold_changes, merge_changes, open_folded
from mangrove.search.index import search_index
from mangrove.search.segments import Segments, SegmentStore
from mangrove.tree import mounts
from mangrove.tree.operations import changes, journal, transfers, uploads
from tests.unit.search.index_files import commit, directory, file, run_in, write_names
from tests.unit.search.search_env import SearchEnv
from tests.unit.tree.environment import stream

AT = 1.7e9


@pytest.fixture(params=["in the tables", "beside segments"])
def env(searched: SearchEnv, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SearchEnv:
    if request.param == "beside segments":
        monkeypatch.setattr(tables, "MAX_NAMES_OF_SMALL_INDEX", 0)
    searched.tree.mount_disk("/disk", "one/red.txt", "two/green.txt")
    searched.index()
    return searched


def put(env: SearchEnv, path: str, content: bytes = b"x") -> None:
    upload = Upload(len(content), AT)
    env.tree.run(uploads.write(env.tree.access(path, Right.WRITE), stream(content), upload, hashes={}))


def find(env: SearchEnv, path: str) -> str:
    return env.tree.run(find_changer(env.tree.access(path)))


def test_changer_of_a_put_or_renamed_file_is_its_user(env: SearchEnv) -> None:
    put(env, "/disk/one/blue.txt")
    assert find(env, "/disk/one/blue.txt") == "u"
    assert find(env, "/disk/one/red.txt") == find(env, "/disk/one") == ""  # made before, and a folder
    env.tree.run(transfers.rename(env.tree.access("/disk/one/blue.txt", Right.RENAME), "black.txt", False))
    assert find(env, "/disk/one/black.txt") == "u"
    env.tree.run(changes.remove(env.tree.access("/disk/one", Right.DELETE), ["black.txt"]))
    with pytest.raises(EntryNotFound):
        find(env, "/disk/one/black.txt")


def test_changer_of_a_file_in_a_moved_folder_stays(env: SearchEnv) -> None:
    put(env, "/disk/one/blue.txt")
    env.tree.run(transfers.rename(env.tree.access("/disk/one", Right.RENAME), "three", False))
    assert find(env, "/disk/three/blue.txt") == "u" and find(env, "/disk/three/red.txt") == ""


@pytest.mark.parametrize(("content", "modified"), [("x", AT + 5), ("longer", AT)])
def test_changer_of_a_file_that_another_program_changed_is_unknown(
    env: SearchEnv, content: str, modified: float
) -> None:
    put(env, "/disk/one/blue.txt")
    disk_file = env.tree.folder / "disk/one/blue.txt"
    disk_file.write_text(content)
    os.utime(disk_file, (modified, modified))
    assert find(env, "/disk/one/blue.txt") == ""


def test_changer_of_a_change_that_an_event_repeats_stays(env: SearchEnv) -> None:
    put(env, "/disk/one/blue.txt")
    if env.find("blue") == ["/disk/one/blue.txt"]:  # so that the tables have the change
        note(env, "/disk/one/blue.txt")
    assert find(env, "/disk/one/blue.txt") == "u"
    put(env, "/disk/one/blue.txt", b"again")
    note(env, "/disk/one/blue.txt")  # together with the change
    assert find(env, "/disk/one/blue.txt") == "u"
    disk_file = env.tree.folder / "disk/one/blue.txt"
    os.utime(disk_file, (AT + 9, AT + 9))
    note(env, "/disk/one/blue.txt")
    assert find(env, "/disk/one/blue.txt") == ""


def note(env: SearchEnv, path: str) -> None:
    """Report a file as an event of the storage does."""

    async def report() -> None:
        (mount,) = (await mounts.ready()).mounts
        storage_path = mounts.StoragePath(await mount.get_driver(), TreePath(path).below(mount.path), mount)
        await journal.note_entries([(storage_path, await storage_path.driver.stat(storage_path.path))])

    env.tree.run(report())


def test_changer_whose_account_was_removed_is_not_named(env: SearchEnv) -> None:
    other = users.create(username="other", password_hash="x", role=0, permission=0xFFFF)
    env.tree.user, owner = other, env.tree.user
    put(env, "/disk/one/blue.txt")
    env.tree.user = owner
    assert find(env, "/disk/one/blue.txt") == "other"
    users.delete(other.id)
    env.tree.set(site_title="another configuration")
    assert find(env, "/disk/one/blue.txt") == ""


def test_changer_is_told_to_readers_of_the_listing_only(env: SearchEnv) -> None:
    put(env, "/disk/one/blue.txt")
    put(env, "/disk/two/blue.txt")
    env.tree.add_rule("/disk/one", password="secret", p_sub=True)
    env.tree.add_rule("/disk/two", hide="blue", h_sub=True)
    with pytest.raises(NotReadable):
        find(env, "/disk/one/blue.txt")
    with pytest.raises(NotReadable):
        find(env, "/disk/two/blue.txt")


def put_change(name: str, changed_by: int | None, modified: float = 1.5) -> IndexChange:
    return IndexChange(1, ChangeKind.NAMES, "/a", entries=(IndexedName(name, False, 1, modified, changed_by),))


async def read_changers(segments: Segments) -> dict[str, int | None]:
    rows = await search_index().database.run(
        f"select coalesce(name, folded), changed_by from {read_names()}", [list(map(str, segments.names))], seconds=30
    )
    return dict(rows)


def test_changers_survive_merges_and_walks_while_files_are_unchanged(tmp_path: Path, records: None) -> None:
    tree = {"/": [directory("a"), directory("b")], "/a": [file("old"), file("kept")], "/b": [file("other")]}

    async def work(store: SegmentStore) -> None:
        base = await commit(store, tree)  # as an earlier version wrote it: without the column
        assert await read_changers(base) == dict.fromkeys(["a", "b", "old", "kept", "other"])
        folder = store.make_work_folder(1)
        merged = await merge_changes(base, folder, "one", [put_change("new", 7), put_change("odd", 8)])
        first = open_folded(base, merged, folder)
        known = {"a": None, "b": None, "old": None, "kept": None, "other": None, "new": 7, "odd": 8}
        assert await read_changers(first) == known
        again = open_folded(first, await merge_changes(first, folder, "two", [put_change("kept", 9)]), folder)
        assert await read_changers(again) == known | {"kept": 9}

        seen = {"/a": [file("old"), file("kept"), file("new", modified=99.0), file("odd", 2)]}
        names, folders = await write_names(folder, "walk", seen)
        fresh = Fresh([folders], [names], 4, 1, [0])
        update = open_folded(again, await fold_changes(again, folder, "three", fresh, None, again), folder)
        assert await read_changers(update) == known | {"kept": 9, "new": None, "odd": None}  # they differ

        names, folders = await write_names(folder, "whole", tree)
        fresh = Fresh([folders], [names], 5, 3)
        folded = await fold_changes(None, folder, "four", fresh, [], update)
        assert [path.name for path in folded.fresh] == folded.names  # the folders are those of the walk
        assert await read_changers(replace(update, names=folded.fresh)) == {
            "a": None,
            "b": None,
            "old": None,
            "other": None,
            "kept": 9,
        }

    run_in(tmp_path / "index", work)
