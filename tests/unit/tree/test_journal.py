"""Every change marks what it touches, before and after it, in few writes; and what may not be marked is not changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import RecordsUnavailable
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.records.files import index_marks
from mangrove.tree import mounts
from mangrove.tree.mounts import Located
from mangrove.tree.operations import changes, journal, names, transfers, uploads
from mangrove.tree.operations.journal import Journal, Touched
from mangrove.tree.operations.transfers import OnConflict
from tests.unit.tree.environment import TreeEnv, stream
from tests.waiting import wait_until

Marks = set[tuple[str, bool]]
CRYPT = {"remote_path": "/disk/d", "password": "p", "encrypted_suffix": ".bin", "filename_encryption": "off"}


@pytest.fixture
def env(tree: TreeEnv) -> TreeEnv:
    tree.set(search_index="database", auto_update_index="true")
    tree.mount_disk("/disk", "d/x/f", "d/g", "e/")
    tree.run(mounts.load())
    return tree


def take_marks(env: TreeEnv) -> dict[str, Marks]:
    """What is marked by now, by mount path; the journal knows of nothing afterwards."""
    found: dict[str, Marks] = {}
    marks = index_marks.list_all(1000)
    table = env.run(mounts.ready())
    for mark in marks:
        found.setdefault(table.by_id[mark.storage_id].path, set()).add((mark.path, mark.deep))
    index_marks.delete(marks)
    runtime.put(Journal, Journal())
    return found


def put(env: TreeEnv, path: str) -> None:
    env.run(uploads.write(env.access(path, Right.WRITE), stream(b"x"), Upload(1, 1.7e9), hashes={}))


def move(env: TreeEnv, name: str) -> None:
    ends = env.access("/disk/d", Right.MOVE), env.access("/disk/e", Right.MOVE)
    env.run(transfers.move(*ends, [name], OnConflict()))


def locate(env: TreeEnv, path: str) -> Located:
    return env.run(env.access(path).locate())


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Marks]]:
    """What each write of marks writes."""
    found: list[Marks] = []
    real = index_marks.put_many

    def write(places: Any) -> None:
        found.append({(place.path, place.deep) for place in places})
        real(places)

    monkeypatch.setattr(index_marks, "put_many", write)
    yield found


def test_a_new_file_marks_its_folder(env: TreeEnv) -> None:
    put(env, "/disk/d/new")
    assert take_marks(env) == {"/disk": {("/d", False)}}


def test_folders_that_are_made_on_the_way_are_marked_deep_below_the_one_that_shows_the_first(env: TreeEnv) -> None:
    put(env, "/disk/d/a/b/new")
    assert take_marks(env) == {"/disk": {("/d", False), ("/d/a", True), ("/d/a/b", False)}}
    env.run(changes.mkdir(env.access("/disk/d/a/c", Right.WRITE)))
    assert take_marks(env) == {"/disk": {("/d/a", False), ("/d/a/c", True)}}
    env.run(changes.mkdir(env.access("/disk/d/a/c", Right.WRITE)))
    assert take_marks(env) == {}


def test_a_renamed_file_marks_its_folder_and_a_folder_both_its_places(env: TreeEnv) -> None:
    env.run(changes.rename(env.access("/disk/d/g", Right.RENAME), "h", False))
    assert take_marks(env) == {"/disk": {("/d", False)}}
    env.run(changes.rename(env.access("/disk/d/x", Right.RENAME), "y", False))
    assert take_marks(env) == {"/disk": {("/d", False), ("/d/x", True), ("/d/y", True)}}


def test_what_is_moved_marks_both_folders(env: TreeEnv) -> None:
    move(env, "g")
    assert take_marks(env) == {"/disk": {("/d", False), ("/e", False)}}
    move(env, "x")
    assert take_marks(env) == {"/disk": {("/d", False), ("/e", False), ("/d/x", True), ("/e/x", True)}}


def test_what_is_removed_marks_its_folder_and_a_folder_itself_lest_the_removal_breaks_off(env: TreeEnv) -> None:
    remove = env.access("/disk/d", Right.DELETE)
    env.run(changes.remove(remove, ["g", "missing"]))
    assert take_marks(env) == {"/disk": {("/d", False)}}
    env.run(changes.remove(remove, ["x"]))
    assert take_marks(env) == {"/disk": {("/d", False), ("/d/x", True)}}


def test_empty_folders_that_are_removed_mark_what_they_were_in(env: TreeEnv) -> None:
    env.run(changes.remove_empty(env.access("/disk", Right.DELETE)))
    assert take_marks(env) == {"/disk": {("/", False)}}


def test_nothing_is_marked_while_it_is_switched_off_or_the_folder_is_not_indexed(env: TreeEnv) -> None:
    for values in (
        {"search_index": "none"},
        {"search_index": "bleve", "auto_update_index": "false"},
        {"auto_update_index": "true", "ignore_paths": "/disk/e\n/disk/d"},
    ):
        env.set(**values)
        put(env, "/disk/d/new")
        assert take_marks(env) == {}
    env.set(ignore_paths="/disk/e", auto_update_index="false", handle_hook_after_writing="true")
    put(env, "/disk/d/new")
    assert take_marks(env) == {"/disk": {("/d", False)}}


def test_a_storage_that_is_not_indexed_is_not_marked(env: TreeEnv) -> None:
    env.mount_disk("/other", disable_index=True)
    put(env, "/other/new")
    env.mount("/virtual", "Virtual")
    env.run(changes.mkdir(env.access("/virtual/new/folder", Right.WRITE)))
    assert take_marks(env) == {}


def test_a_change_through_an_alias_marks_what_it_leads_to_and_all_that_lead_there(env: TreeEnv) -> None:
    env.mount("/alias", "Alias", options={"paths": "/disk/d", "put_conflict_policy": "all"})
    env.mount("/two", "Alias", options={"paths": "a:/alias\nb:/disk/e"})
    for path in ("/disk/d/x/new", "/alias/x/new"):
        put(env, path)
        assert take_marks(env) == {"/disk": {("/d/x", False)}, "/alias": {("/x", False)}, "/two": {("/a/x", False)}}
    put(env, "/disk/e/new")
    assert take_marks(env) == {"/disk": {("/e", False)}, "/two": {("/b", False)}}


def test_a_folder_above_what_an_alias_shows_changes_all_of_it(env: TreeEnv) -> None:
    env.mount("/alias", "Alias", options={"paths": "x:/disk/d/x\ne:/disk/e"})
    env.run(changes.rename(env.access("/disk/d", Right.RENAME), "c", False))
    assert take_marks(env) == {
        "/disk": {("/", False), ("/d", True), ("/c", True)},
        "/alias": {("/x", True)},
    }


@pytest.mark.parametrize("path", ["/crypt/x/new", "/disk/d/x/new.bin"])
def test_a_change_of_what_is_encrypted_shows_where_it_is_and_decrypted(env: TreeEnv, path: str) -> None:
    env.mount("/crypt", "Crypt", options=CRYPT)
    put(env, path)
    assert take_marks(env) == {"/disk": {("/d/x", False)}, "/crypt": {("/x", False)}}


def test_many_changes_of_one_folder_cost_one_write_in_two_seconds(env: TreeEnv, writes: list[Marks]) -> None:
    async def put_many() -> None:
        access = [env_access.child(f"n{number}") for number in range(40)]
        await asyncio.gather(
            *(uploads.write(one, stream(b"x"), Upload(1, 1.7e9), hashes={}) for one in access),
        )

    env_access = env.access("/disk/d", Right.WRITE)
    env.run(put_many())
    put(env, "/disk/d/again")
    assert writes == [{("/d", False)}]


def test_many_changes_at_once_share_their_writes(env: TreeEnv, writes: list[Marks]) -> None:
    place = locate(env, "/disk/d")

    async def change(number: int) -> None:
        async with journal.add(place.child(str(number)).child("f")):
            await asyncio.sleep(0)

    async def change_many() -> None:
        await asyncio.gather(*(change(number) for number in range(50)))

    env.run(change_many())
    assert len(writes) <= 2 and set.union(*writes) == {(f"/d/{number}", False) for number in range(50)}


def test_what_a_task_changes_below_a_new_folder_needs_no_mark_of_its_own(env: TreeEnv, writes: list[Marks]) -> None:
    new = locate(env, "/disk/d/a")

    async def change() -> None:
        for located in (new, new.child("b"), new.child("c").child("d")):
            await names.makedirs(located, in_bulk=True)
            async with journal.change_folders(Touched(located)):
                pass

    env.run(change())
    assert writes == [{("/d", False), ("/d/a", True)}]
    put(env, "/disk/d/a/b/f")
    assert writes[1:] == [{("/d/a/b", False)}]


def test_a_long_change_is_marked_all_the_time_and_at_its_end(
    env: TreeEnv, writes: list[Marks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "COALESCE_SECONDS", 0.02)
    monkeypatch.setattr(journal, "TICK_SECONDS", 0.01)
    place = locate(env, "/disk/d/f")

    async def change() -> int:
        async with journal.add(place):
            await asyncio.to_thread(wait_until, lambda: len(writes) >= 3)
            await asyncio.sleep(0.03)  # so that the last mark is old
            seen = len(writes)
        await asyncio.sleep(0)
        return seen

    seen = env.run(change())
    assert len(writes) >= max(seen, 3) and all(one == {("/d", False)} for one in writes)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether marks cannot be written."""
    state, real = [True], index_marks.put_many

    def write(places: Any) -> None:
        if state[0]:
            raise RecordsUnavailable
        real(places)

    monkeypatch.setattr(index_marks, "put_many", write)
    return state


def test_nothing_is_changed_that_cannot_be_marked(env: TreeEnv, broken: list[bool]) -> None:
    with pytest.raises(RecordsUnavailable):
        put(env, "/disk/d/new")
    with pytest.raises(RecordsUnavailable):
        env.run(changes.remove(env.access("/disk/d", Right.DELETE), ["g"]))
    root = env.folder / "disk" / "d"
    assert sorted(path.name for path in root.iterdir()) == ["g", "x"]
    env.set(search_index="none")
    put(env, "/disk/d/new")


def test_a_change_that_is_done_stays_so_and_its_mark_is_written_later(
    env: TreeEnv, broken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "TICK_SECONDS", 0.01)
    place = locate(env, "/disk/d/f")

    async def change() -> None:
        broken[0] = False
        async with journal.add(place):
            await asyncio.to_thread(index_marks.delete_of, place.mount.storage.id)
            monkeypatch.setattr(journal, "COALESCE_SECONDS", 0.0)
            broken[0] = True
        broken[0] = False
        await asyncio.to_thread(wait_until, lambda: index_marks.list_all(1) != [])

    env.run(change())
    assert take_marks(env) == {"/disk": {("/d", False)}}


def test_a_body_that_is_sent_slowly_is_marked_at_its_end(env: TreeEnv, writes: list[Marks]) -> None:
    seen: list[int] = []

    async def body() -> Any:
        yield b"x"
        seen.append(len(writes))

    env.run(uploads.write(env.access("/disk/d/new", Right.WRITE), body(), Upload(1, 1.7e9), hashes={}))
    assert seen == [0] and writes == [{("/d", False)}]


def test_a_change_of_very_many_folders_drops_and_marks_them_all(env: TreeEnv) -> None:
    place = locate(env, "/disk/d")

    async def change() -> None:
        async with journal.change_folders(*(Touched(place.child(str(number))) for number in range(60))):
            pass

    env.run(change())
    assert take_marks(env)["/disk"] == {(f"/d/{number}", False) for number in range(60)}


def test_what_is_known_is_bounded(env: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_KNOWN", 3)
    place = locate(env, "/disk/d")

    async def change() -> None:
        for number in range(6):
            async with journal.add(place.with_path(TreePath(f"/{number}/f"))):
                pass

    env.run(change())
    assert len(take_marks(env)["/disk"]) == 6
