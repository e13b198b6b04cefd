"""The log says before a change where something may change, and after it what is there; where the log cannot be written
nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.problems import Problem, RecordsUnavailable, Unreachable
from mangrove.drivers.base import Entry, Upload
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Right
from mangrove.records import index_changes
from mangrove.records.index_changes import MAX_NAMES_PER_CHANGE, ChangeKind, IndexChange
from mangrove.tree import mounts
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import change_log, changes, journal, name_locks, transfers, uploads
from mangrove.tree.operations.change_log import ChangeLog
from mangrove.tree.operations.journal import Touched
from mangrove.tree.operations.plans import TransferRequest
from tests.support.waiting import wait_until
from tests.unit.tree.environment import TreeEnv, stream

CRYPT = {"remote_path": "/disk/d", "password": "p", "encrypted_suffix": ".bin", "filename_encryption": "off"}


@pytest.fixture
def env(tree: TreeEnv) -> TreeEnv:
    tree.set(search_index="database", auto_update_index="true")
    tree.mount_disk("/disk", "d/x/f", "d/g", "e/")
    tree.run(mounts.load())
    return tree


def take_changes(env: TreeEnv) -> dict[str, set[str]]:
    """Return the content of the log by mount path, without intents; it is empty afterwards, and nothing is cached."""
    log: dict[str, set[str]] = {}
    table = env.run(mounts.ready())
    rows = index_changes.read()
    for row in rows:
        if row.kind is not ChangeKind.INTENT:
            log.setdefault(table.by_id[row.storage_id].path, set()).update(describe(row))
    index_changes.write([], [row.number for row in rows])
    runtime.put(ChangeLog, ChangeLog())
    return log


def describe(row: IndexChange) -> set[str]:
    folder = row.path.rstrip("/")
    if row.kind is ChangeKind.NAMES:
        present = {f"+ {folder}/{entry.name}{'/' if entry.is_dir else ''}" for entry in row.entries}
        return present | {f"- {folder}/{name}" for name in row.removed}
    if row.kind is ChangeKind.READ:
        return {f"? {row.path}{' deep' if row.deep else ''}"}
    return {f"{row.kind.value} {row.path} {row.target}"}


def list_intents() -> set[tuple[str, bool]]:
    return {(row.path, row.deep) for row in index_changes.read() if row.kind is ChangeKind.INTENT}


def put(env: TreeEnv, path: str) -> None:
    env.run(uploads.write(env.access(path, Right.WRITE), stream(b"x"), Upload(1, 1.7e9), hashes={}))


def move(env: TreeEnv, name: str) -> None:
    ends = env.access("/disk/d", Right.MOVE), env.access("/disk/e", Right.MOVE)
    env.run(transfers.transfer(TransferRequest(Right.MOVE, *ends, [name])))


def locate(env: TreeEnv, path: str) -> StoragePath:
    return env.run(env.access(path).locate())


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[IndexChange]]]:
    """The changes of each finished write to the log."""
    calls: list[list[IndexChange]] = []
    real = index_changes.write

    def write(rows: Any, delete: Any = ()) -> None:
        real(rows, delete)
        calls.append(list(rows))

    monkeypatch.setattr(index_changes, "write", write)
    yield calls


def test_put_logs_the_file_and_the_folders_that_it_makes(env: TreeEnv) -> None:
    put(env, "/disk/d/new")
    assert list_intents() == {("/d", False)}
    assert take_changes(env) == {"/disk": {"+ /d/new"}}
    put(env, "/disk/d/a/b/new")
    assert take_changes(env) == {"/disk": {"+ /d/a/", "+ /d/a/b/", "+ /d/a/b/new"}}
    env.run(changes.mkdir(env.access("/disk/d/a/c", Right.WRITE)))
    assert take_changes(env) == {"/disk": {"+ /d/a/c/"}}
    env.run(changes.mkdir(env.access("/disk/d/a/c", Right.WRITE)))
    assert take_changes(env) == {}


def test_rename_logs_names_of_a_file_and_one_move_of_a_folder(env: TreeEnv) -> None:
    env.run(transfers.rename(env.access("/disk/d/g", Right.RENAME), "h", False))
    assert take_changes(env) == {"/disk": {"- /d/g", "+ /d/h"}}
    env.run(transfers.rename(env.access("/disk/d/x", Right.RENAME), "y", False))
    assert list_intents() == {("/d", False), ("/d/x", True), ("/d/y", True)}
    assert take_changes(env) == {"/disk": {"move /d/x /d/y"}}
    move(env, "y")
    assert take_changes(env) == {"/disk": {"move /d/y /e/y"}}


def test_remove_logs_what_is_gone(env: TreeEnv) -> None:
    access = env.access("/disk/d", Right.DELETE)
    env.run(changes.remove(access, ["g", "missing"]))
    assert take_changes(env) == {"/disk": {"- /d/g", "- /d/missing"}}
    env.run(changes.remove(access, ["x"]))
    assert take_changes(env) == {"/disk": {"- /d/x"}}
    env.run(changes.remove_empty(env.access("/disk", Right.DELETE)))
    assert take_changes(env) == {"/disk": {"- /d", "- /e"}}


def test_change_that_fails_logs_what_is_to_be_read(env: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise Unreachable

    monkeypatch.setattr(Local, "rename", fail)
    monkeypatch.setattr(Local, "remove", fail)
    with pytest.raises(Problem):
        env.run(transfers.rename(env.access("/disk/d/x", Right.RENAME), "y", False))
    assert take_changes(env) == {"/disk": {"? /d", "? /d/x deep", "? /d/y deep"}}
    with pytest.raises(Problem):
        env.run(changes.remove(env.access("/disk/d", Right.DELETE), ["g"]))
    assert take_changes(env) == {"/disk": {"+ /d/g"}}, "it was looked at"


def test_nothing_is_logged_without_an_index(env: TreeEnv) -> None:
    for values in (
        {"search_index": "none"},
        {"search_index": "bleve", "auto_update_index": "false"},
        {"auto_update_index": "true", "ignore_paths": "/disk/e\n/disk/d"},
    ):
        env.set(**values)
        put(env, "/disk/d/new")
        assert (take_changes(env), list_intents()) == ({}, set())
    env.set(ignore_paths="/disk/e", auto_update_index="false", handle_hook_after_writing="true")
    put(env, "/disk/d/new")
    move(env, "x")
    assert take_changes(env) == {"/disk": {"+ /d/new", "- /d/x"}}
    env.mount_disk("/other", disable_index=True)
    put(env, "/other/new")
    env.mount("/virtual", "Virtual")
    env.run(changes.mkdir(env.access("/virtual/new/folder", Right.WRITE)))
    assert (take_changes(env), list_intents()) == ({}, set())


def test_alias_shows_the_change_wherever_it_was_made(env: TreeEnv) -> None:
    env.mount("/alias", "Alias", options={"paths": "/disk/d", "put_conflict_policy": "all"})
    env.mount("/two", "Alias", options={"paths": "a:/alias\nb:/disk/e"})
    for name, path in (("new", "/disk/d/x/new"), ("new2", "/alias/x/new2")):
        put(env, path)
        assert take_changes(env) == {
            "/disk": {f"+ /d/x/{name}"},
            "/alias": {f"+ /x/{name}"},
            "/two": {f"+ /a/x/{name}"},
        }
    put(env, "/disk/e/new")
    assert take_changes(env) == {"/disk": {"+ /e/new"}, "/two": {"+ /b/new"}}
    env.run(transfers.rename(env.access("/disk/d/x", Right.RENAME), "y", False))
    assert take_changes(env) == {"/disk": {"move /d/x /d/y"}, "/alias": {"move /x /y"}, "/two": {"move /a/x /a/y"}}


def test_folder_above_what_an_alias_shows_is_to_be_read_there(env: TreeEnv) -> None:
    env.mount("/alias", "Alias", options={"paths": "x:/disk/d/x\ne:/disk/e"})
    env.run(transfers.rename(env.access("/disk/d", Right.RENAME), "c", False))
    assert take_changes(env) == {"/disk": {"move /d /c"}, "/alias": {"? /x deep", "+ /x/", "- /x"}}


@pytest.mark.parametrize("path", ["/crypt/x/new", "/disk/d/x/new.bin"])
def test_what_is_encrypted_is_to_be_read_at_the_other_place(env: TreeEnv, path: str) -> None:
    env.mount("/crypt", "Crypt", options=CRYPT)
    put(env, path)
    is_plain = path.startswith("/crypt")
    assert take_changes(env) == {
        "/disk": {"? /d/x"} if is_plain else {"+ /d/x/new.bin"},
        "/crypt": {"+ /x/new"} if is_plain else {"? /x"},
    }


def test_changes_at_once_share_intent_and_writes(env: TreeEnv, writes: list[list[IndexChange]]) -> None:
    folder = env.access("/disk/d", Right.WRITE)

    async def put_many() -> None:
        bodies = (folder.child(f"n{number}") for number in range(40))
        await asyncio.gather(*(uploads.write(access, stream(b"x"), Upload(1, 1.7e9), hashes={}) for access in bodies))

    env.run(put_many())
    assert len(writes) < 40
    assert sum(row.kind is ChangeKind.INTENT for rows in writes for row in rows) == 1
    assert take_changes(env) == {"/disk": {f"+ /d/n{number}" for number in range(40)}}


def test_task_needs_no_intent_below_a_folder_that_it_makes(env: TreeEnv) -> None:
    new = locate(env, "/disk/d/a")

    async def change() -> None:
        for storage_path in (new, new.child("b"), new.child("c").child("d")):
            await name_locks.makedirs(storage_path, in_bulk=True)
            async with journal.change_folders(Touched(storage_path)):
                pass

    env.run(change())
    assert list_intents() == {("/d", False), ("/d/a", True)}


def test_files_of_a_folder_are_logged_in_few_rows(env: TreeEnv, writes: list[list[IndexChange]]) -> None:
    env.set(ignore_paths="/disk/d/f3")
    files = [Entry(f"f{number}", number, 1.7e9, False) for number in range(2 * MAX_NAMES_PER_CHANGE)]
    folder = locate(env, "/disk/d")

    async def change() -> None:
        async with journal.change_folders(Touched(folder)) as change:
            change.put_files(folder, [*files, Entry(".mangrove-a.part", 1, 1.7e9, False)])
            change.put(folder.child("after"), Entry("after", 1, 1.7e9, False))
            change.put(folder.child("f0"), Entry("f0", 1, 1.7e9, False))
        await asyncio.to_thread(wait_until, lambda: len(writes) > 1)

    env.run(change())
    rows = [row.entries for row in writes[-1]]
    assert [len(row) for row in rows] == [MAX_NAMES_PER_CHANGE, MAX_NAMES_PER_CHANGE, 1]
    names = [entry.name for row in rows for entry in row]
    assert names == [*(file.name for file in files if file.name != "f3"), "after", "f0"]
    assert [entry.size for entry in rows[0][:3]] == [0, 1, 2]


def test_files_of_a_folder_are_logged_where_an_alias_shows_them(env: TreeEnv, writes: list[list[IndexChange]]) -> None:
    env.mount("/alias", "Alias", options={"paths": "/disk/d"})
    folder = locate(env, "/disk/d")

    async def change() -> None:
        async with journal.change_folders(Touched(folder)) as change:
            change.put_files(folder, [Entry("g", 1, 1.7e9, False)])
        await asyncio.to_thread(wait_until, lambda: len(writes) > 1)

    env.run(change())
    assert take_changes(env) == {"/disk": {"+ /d/g"}, "/alias": {"+ /g"}}


def test_intent_is_renewed_while_a_change_goes_on(env: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "INTENT_RENEWAL_SECONDS", 0.02)
    monkeypatch.setattr(change_log, "INTENT_IDLE_SECONDS", 0.0)
    monkeypatch.setattr(change_log, "TICK_SECONDS", 0.01)
    place = locate(env, "/disk/d/f")

    async def change() -> None:
        async with journal.add(place):
            (first,) = [row.number for row in index_changes.read()]
            renewed = lambda: [row.number for row in index_changes.read()] not in ([first], [])  # noqa: E731
            await asyncio.to_thread(wait_until, renewed)
            assert list_intents() == {("/d", False)}
        await asyncio.to_thread(wait_until, lambda: not list_intents())

    env.run(change())


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """True while the log cannot be written."""
    state, real = [True], index_changes.write

    def write(rows: Any, delete: Any = ()) -> None:
        if state[0]:
            raise RecordsUnavailable
        real(rows, delete)

    monkeypatch.setattr(index_changes, "write", write)
    return state


def test_nothing_is_changed_without_an_intent(env: TreeEnv, broken: list[bool]) -> None:
    with pytest.raises(RecordsUnavailable):
        put(env, "/disk/d/new")
    with pytest.raises(RecordsUnavailable):
        env.run(changes.remove(env.access("/disk/d", Right.DELETE), ["g"]))
    root = env.folder / "disk" / "d"
    assert sorted(path.name for path in root.iterdir()) == ["g", "x"]
    env.set(search_index="none")
    put(env, "/disk/d/new")


def test_finished_change_is_logged_later_if_it_must(
    env: TreeEnv, broken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "TICK_SECONDS", 0.01)
    place = locate(env, "/disk/d/g")

    async def change() -> None:
        broken[0] = False
        async with journal.add(place):
            broken[0] = True
        broken[0] = False
        await asyncio.to_thread(wait_until, lambda: len(index_changes.read()) > 1)

    env.run(change())
    assert take_changes(env) == {"/disk": {"+ /d/g"}}


def test_slow_write_has_its_folder_read(env: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_changes, "MAX_WRITE_DELAY_SECONDS", -1.0)
    monkeypatch.setattr(change_log, "TICK_SECONDS", 0.01)
    place = locate(env, "/disk/d/g")

    async def change() -> None:
        async with journal.add(place):
            pass
        kinds = lambda: [row.kind for row in index_changes.read()]  # noqa: E731
        await asyncio.to_thread(wait_until, lambda: ChangeKind.READ in kinds())

    env.run(change())
    assert take_changes(env) == {"/disk": {"+ /d/g", "? /d"}}


def test_slow_body_begins_its_change_at_its_end(env: TreeEnv, writes: list[list[IndexChange]]) -> None:
    seen: list[int] = []

    async def body() -> Any:
        yield b"x"
        seen.append(len(writes))

    env.run(uploads.write(env.access("/disk/d/new", Right.WRITE), body(), Upload(1, 1.7e9), hashes={}))
    assert seen == [0] and len(writes) == 2
