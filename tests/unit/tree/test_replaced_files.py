"""Files that a batch replaces in a storage with a trash: a few calls for all of them, and each one in the trash."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, StorageProblem, Unreachable
from mangrove.drivers.base import CopyRequest, Driver, Entry, NewFile, Upload
from mangrove.drivers.local import removal
from mangrove.drivers.local.copy import FileCopier
from mangrove.drivers.local.driver import Local
from mangrove.drivers.part_names import TRASH
from mangrove.records import trash, trash_claims
from mangrove.records.store.base import get_connection
from mangrove.records.trash import TrashEntry, TrashKind, TrashRecord
from mangrove.tree.trash import repair, replaced_files
from mangrove.tree.trash.content import get_path
from mangrove.tree.trash.keeping import TrashDriver
from tests.unit.tree.environment import TreeEnv

NAMES = [f"f{number:02}" for number in range(60)]
MAX_ROWS = 1000
LOCAL_CALLS = (
    "stat", "stat_many", "makedirs", "set_aside", "set_many_aside", "copy_from", "write_whole", "move", "remove",
)  # fmt: skip
P = TreePath


@pytest.fixture
def roots(tree: TreeEnv) -> tuple[Path, Path]:
    """A storage of files, and one with a trash that has files of the same names."""
    folders = tree.folder / "new", tree.folder / "old"
    for folder in folders:
        folder.mkdir()
        for name in NAMES:
            (folder / name).write_text(f"{folder.name} {name}")
    return folders


def find_driver(tree: TreeEnv, folder: Path, **options: int) -> Driver:
    """Mount a folder, and return its driver."""
    tree.mount(f"/{folder.name}", options={"root_folder_path": str(folder), "show_hidden": True} | options)
    return tree.run(tree.access(f"/{folder.name}").locate()).driver


def request(folder: Path, name: str, *, overwrite: bool = True, durable: bool = False) -> CopyRequest:
    status = (folder / name).stat()
    return CopyRequest(P(f"/{name}"), P(f"/{name}"), status.st_size, status.st_mtime, overwrite, durable=durable)


def copy(
    tree: TreeEnv, source: Driver, target: Driver, requests: Sequence[CopyRequest]
) -> list[type[StorageProblem] | None]:
    """Copy files in one call. Return the class of each failure."""
    results = tree.run(target.copy_from(source, requests))
    assert results is not None
    return [None if result is None else type(result) for result in results]


def list_kept(tree: TreeEnv, driver: Driver, root: Path) -> dict[str, str]:
    """Return the content of the entries of a trash by their former names."""
    rows = tree.run(asyncio.to_thread(trash.list_of, driver.context.storage_id, MAX_ROWS))
    return {row.path.lstrip("/"): read_kept(root, row) for row in rows}


def read_kept(root: Path, row: TrashEntry) -> str:
    return (root / get_path(row).lstrip("/")).read_text()


def count_intents(tree: TreeEnv) -> int:
    return len(tree.run(asyncio.to_thread(trash.list_intents, MAX_ROWS)))


def check_clean(tree: TreeEnv, driver: Driver, root: Path) -> None:
    """Fail unless each folder of the trash belongs to an entry, and nothing is announced."""
    rows = tree.run(asyncio.to_thread(trash.list_of, driver.context.storage_id, MAX_ROWS))
    assert set(os.listdir(root / TRASH)) == {row.id for row in rows}
    assert count_intents(tree) == 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls of the storage and of the records of the trash."""
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, name, call)

    for name in LOCAL_CALLS:
        count(Local, name)
    for name in ("transact_write_items", "batch_write_item", "query"):
        count(get_connection(TrashRecord).client, name)
    transact = trash_claims.transact

    def count_claim(**writes: Any) -> None:
        counts["transact_write_items"] += 1
        transact(**writes)

    monkeypatch.setattr(trash_claims, "transact", count_claim)
    return counts


@pytest.mark.parametrize("durable", [False, True])
def test_batch_of_copies_keeps_replaced_files_in_few_calls(
    tree: TreeEnv, roots: tuple[Path, Path], calls: Counter[str], durable: bool
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, trash_days=30)
    calls.clear()
    assert copy(tree, source, target, [request(new, name, durable=durable) for name in NAMES]) == [None] * 60
    # of the records: 60 intents, then 60 rows and the removal of 60 intents, 100 in each transaction
    assert calls == {
        "copy_from": 2, "stat_many": 2, "makedirs": 1, "set_many_aside": 1, "transact_write_items": 1 + 2,
    }  # fmt: skip
    assert {name: (old / name).read_text() for name in NAMES} == {name: f"new {name}" for name in NAMES}
    assert list_kept(tree, target, old) == {name: f"old {name}" for name in NAMES}
    check_clean(tree, target, old)


def test_batch_of_uploads_keeps_replaced_files_in_few_calls(
    tree: TreeEnv, roots: tuple[Path, Path], calls: Counter[str]
) -> None:
    _, old = roots
    target = find_driver(tree, old, trash_days=30)
    files = [NewFile(P(f"/{name}"), b"new", Upload(3, time.time())) for name in NAMES]
    calls.clear()
    results = tree.run(target.write_whole(files))
    assert [result.name for result in results if isinstance(result, Entry)] == NAMES
    assert calls == {
        "write_whole": 1, "stat_many": 2, "makedirs": 1, "set_many_aside": 1, "transact_write_items": 1 + 2,
    }  # fmt: skip
    assert {(old / name).read_text() for name in NAMES} == {"new"}
    assert list_kept(tree, target, old) == {name: f"old {name}" for name in NAMES}
    check_clean(tree, target, old)


def test_batch_keeps_versions_and_deletes_those_that_are_too_many(
    tree: TreeEnv, roots: tuple[Path, Path], calls: Counter[str]
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, keep_versions=1)
    requests = [request(new, name) for name in NAMES]
    assert copy(tree, source, target, requests) == [None] * 60
    calls.clear()
    assert copy(tree, source, target, requests) == [None] * 60
    # also 60 removals of the former version: 60 intents and 60 rows, then for each one row and one intent
    assert (calls["remove"], calls["transact_write_items"], calls["query"]) == (60, 1 + 2 + 2 + 2, 1)
    for name in NAMES:
        (row,) = tree.run(asyncio.to_thread(trash.list_versions, target.context.storage_id, f"/{name}", MAX_ROWS))
        assert (row.kind, read_kept(old, row)) == (TrashKind.VERSION, f"new {name}")
    assert len(os.listdir(old / TRASH)) == 60
    assert count_intents(tree) == 0


def test_files_of_a_batch_that_fail_stay_and_are_not_in_the_trash(tree: TreeEnv, roots: tuple[Path, Path]) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, trash_days=30)
    (old / NAMES[0]).unlink()
    (old / NAMES[0]).mkdir()
    (old / NAMES[1]).write_text("")
    (old / NAMES[2]).unlink()
    requests = [request(new, name) for name in NAMES[:7]]
    requests[3] = requests[3]._replace(size=1)
    requests[4] = requests[4]._replace(overwrite=False)
    requests[5] = requests[5]._replace(target=P(f"/{NAMES[2]}"))  # two files for one path
    assert copy(tree, source, target, requests) == [EntryExists, None, None, EntryChanged, EntryExists, None, None]
    texts = {name: (old / name).read_text() for name in NAMES[1:7]}
    assert texts == {
        "f01": "new f01", "f02": "new f05", "f03": "old f03", "f04": "old f04", "f05": "old f05", "f06": "new f06",
    }  # fmt: skip
    assert list_kept(tree, target, old) == {"f02": "new f02", "f06": "old f06"}
    check_clean(tree, target, old)


def test_file_that_appears_meanwhile_is_kept_when_it_is_replaced(
    tree: TreeEnv, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, trash_days=30)
    (old / NAMES[0]).unlink()
    copy_from = FileCopier.copy_from

    def appear(copier: FileCopier, *args: Any) -> Any:
        if args[1] and not (old / NAMES[0]).exists():
            (old / NAMES[0]).write_text("meanwhile")
        return copy_from(copier, *args)

    monkeypatch.setattr(FileCopier, "copy_from", appear)
    assert copy(tree, source, target, [request(new, name) for name in NAMES[:2]]) == [None, None]
    assert list_kept(tree, target, old) == {"f00": "meanwhile", "f01": "old f01"}
    check_clean(tree, target, old)


def test_storage_without_hard_links_replaces_files_one_by_one(
    tree: TreeEnv, roots: tuple[Path, Path], calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, trash_days=30)
    monkeypatch.setattr(removal, "link_new_name", lambda *args: False)
    assert copy(tree, source, target, [request(new, name) for name in NAMES[:3]]) == [None] * 3
    assert calls["set_aside"] == 3
    assert {(old / name).read_text() for name in NAMES[:3]} == {f"new {name}" for name in NAMES[:3]}
    assert list_kept(tree, target, old) == {name: f"old {name}" for name in NAMES[:3]}
    check_clean(tree, target, old)


def test_batch_that_fails_as_a_whole_leaves_the_old_files(
    tree: TreeEnv, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, trash_days=30)
    copy_from = FileCopier.copy_from

    def fail(copier: FileCopier, root: Any, files: Sequence[CopyRequest]) -> Any:
        if files:
            copy_from(copier, root, files[:2])
            raise Unreachable
        return []

    monkeypatch.setattr(FileCopier, "copy_from", fail)
    with pytest.raises(Unreachable):
        tree.run(target.copy_from(source, [request(new, name) for name in NAMES[:4]]))
    assert [(old / name).read_text() for name in NAMES[:4]] == ["new f00", "new f01", "old f02", "old f03"]
    assert list_kept(tree, target, old) == {"f00": "old f00", "f01": "old f01"}
    check_clean(tree, target, old)


def test_cancelled_batch_keeps_what_its_thread_still_replaces(
    tree: TreeEnv, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), find_driver(tree, old, trash_days=30)
    copy_from = FileCopier.copy_from

    async def cancel_midway() -> None:
        loop, begun, may_go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def wait(copier: FileCopier, root: Any, files: Sequence[CopyRequest]) -> Any:
            if files:
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result()
            return copy_from(copier, root, files)

        monkeypatch.setattr(FileCopier, "copy_from", wait)
        work = asyncio.ensure_future(target.copy_from(source, [request(new, name) for name in NAMES[:4]]))
        await begun.wait()
        work.cancel()
        loop.call_soon(may_go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await work

    tree.run(cancel_midway())
    assert {(old / name).read_text() for name in NAMES[:4]} == {f"new {name}" for name in NAMES[:4]}
    assert list_kept(tree, target, old) == {name: f"old {name}" for name in NAMES[:4]}
    check_clean(tree, target, old)


def move(tree: TreeEnv, driver: Driver, pairs: Sequence[tuple[str, str]], *, stops: bool = False) -> list[Any]:
    """Move files of a storage together. Return the class of each failure."""
    assert isinstance(driver, TrashDriver)
    files = [(P(f"/{source}"), P(f"/{target}")) for source, target in pairs]
    results = tree.run(driver.replace_by_moves(files, stops=stops))
    return [type(result) if isinstance(result, StorageProblem) else None for result in results]


@pytest.fixture
def moved(tree: TreeEnv, roots: tuple[Path, Path]) -> Driver:
    """The storage with a trash, with other files in a folder."""
    _, old = roots
    (old / "in").mkdir()
    for name in NAMES:
        (old / "in" / name).write_text(f"new {name}")
    return find_driver(tree, old, trash_days=30)


def test_batch_of_moves_keeps_replaced_files_in_few_calls(
    tree: TreeEnv, roots: tuple[Path, Path], moved: Driver, calls: Counter[str]
) -> None:
    _, old = roots
    (old / NAMES[0]).unlink()
    calls.clear()
    assert move(tree, moved, [(f"in/{name}", name) for name in NAMES]) == [None] * 60
    # the entries of the sources, those of the targets, and these once more under the lock
    assert calls == {
        "stat_many": 3, "makedirs": 1, "set_many_aside": 1, "move": 60, "transact_write_items": 1 + 2,
    }  # fmt: skip
    assert {name: (old / name).read_text() for name in NAMES} == {name: f"new {name}" for name in NAMES}
    assert os.listdir(old / "in") == []
    assert list_kept(tree, moved, old) == {name: f"old {name}" for name in NAMES[1:]}
    check_clean(tree, moved, old)


@pytest.mark.parametrize("stops", [False, True])
def test_moves_that_fail_leave_the_old_files(
    tree: TreeEnv, roots: tuple[Path, Path], moved: Driver, stops: bool
) -> None:
    _, old = roots
    (old / "in/f01").unlink()
    (old / "f02").unlink()
    (old / "f02").mkdir()
    results = move(tree, moved, [(f"in/{name}", name) for name in NAMES[:5]], stops=stops)
    assert results == [None, EntryNotFound, *([] if stops else [EntryExists, None, None])]
    new_names = ["f00"] if stops else ["f00", "f03", "f04"]
    texts = {name: (old / name).read_text() for name in ("f00", "f01", "f03", "f04")}
    assert texts == {name: f"{'new' if name in new_names else 'old'} {name}" for name in texts}
    assert list_kept(tree, moved, old) == {name: f"old {name}" for name in new_names}
    check_clean(tree, moved, old)


def test_moves_of_a_chain_take_place_in_order(tree: TreeEnv, roots: tuple[Path, Path], moved: Driver) -> None:
    _, old = roots
    pairs = [("f00", "f01"), ("f01", "f02"), ("f03", "f04"), ("f05", "f04")]
    assert move(tree, moved, pairs) == [None] * 4
    assert {name for name in NAMES[:6] if (old / name).exists()} == {"f02", "f04"}
    assert ((old / "f02").read_text(), (old / "f04").read_text()) == ("old f00", "old f05")
    rows = tree.run(asyncio.to_thread(trash.list_of, moved.context.storage_id, MAX_ROWS))
    assert sorted(read_kept(old, row) for row in rows) == ["old f01", "old f02", "old f03", "old f04"]
    check_clean(tree, moved, old)


class Death(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("verb", ["copy", "move"])
@pytest.mark.parametrize(
    ("checkpoint", "is_replaced"), [("trash.intended", False), ("trash.kept", False), ("trash.replaced", True)]
)
def test_batch_of_a_process_that_died_loses_nothing(
    tree: TreeEnv,
    roots: tuple[Path, Path],
    moved: Driver,
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: str,
    is_replaced: bool,
    verb: str,
) -> None:
    new, old = roots
    source, target = find_driver(tree, new), moved

    def die(name: str) -> None:
        if name == checkpoint:
            raise Death

    async def do_nothing(files: replaced_files.ReplacedFiles) -> None:
        pass  # a process that died undoes nothing

    monkeypatch.setattr(replaced_files, "pass_checkpoint", die)
    monkeypatch.setattr(replaced_files.ReplacedFiles, "undo", do_nothing)
    with pytest.raises(Death):
        if verb == "copy":
            tree.run(target.copy_from(source, [request(new, name) for name in NAMES]))
        else:
            move(tree, target, [(f"in/{name}", name) for name in NAMES])
    assert count_intents(tree) == 60
    word = "new" if is_replaced else "old"
    assert {name: (old / name).read_text() for name in NAMES} == {name: f"{word} {name}" for name in NAMES}
    monkeypatch.setattr(repair, "ABANDONED_SECONDS", 0.0)
    tree.run(repair.sweep())
    assert list_kept(tree, target, old) == ({name: f"old {name}" for name in NAMES} if is_replaced else {})
    check_clean(tree, target, old)
