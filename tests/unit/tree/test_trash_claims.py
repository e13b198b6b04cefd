"""Requests for one entry of the trash, or one entry of a storage, at the same time: exactly one of them has it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, InUse
from mangrove.drivers.base import Driver, Upload, list_all
from mangrove.drivers.local.driver import Local
from mangrove.drivers.part_names import TRASH
from mangrove.identity.rights import Caller, Right
from mangrove.records import trash, trash_claims
from mangrove.records.trash import TrashEntry
from mangrove.records.trash_claims import ClaimResult
from mangrove.tree import mounts
from mangrove.tree.operations import changes, uploads
from mangrove.tree.trash import claims, entries, repair, restoring
from mangrove.tree.trash.entries import TrashItem, TrashQuery, TrashResult
from tests import servers
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.tree.environment import TreeEnv, stream

STORAGES = ("disk", "bucket", "versions")
FILES = {"d": {"d/a", "d/b/c"}, "a.txt": {"a.txt"}}
WAIT_SECONDS = 60.0  # for another request of a test


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tree: TreeEnv) -> Driver:
    """The driver of a storage with files: one that renames, one that moves file by file, one that keeps versions."""
    kind = request.param
    if kind == "disk":
        (tree.folder / "disk").mkdir()
        tree.mount("/s", options={"root_folder_path": str(tree.folder / "disk"), "show_hidden": True, "trash_days": 30})
    else:
        endpoint = request.getfixturevalue("moto")
        tree.mount("/s", "S3", options=servers.s3_options(endpoint, Bucket(endpoint).name, trash_days=30))
    driver: Any = find_driver(tree)
    if kind == "versions":
        tree.run(driver.unwrap().call("put_bucket_versioning", VersioningConfiguration={"Status": "Enabled"}))
    for name in sorted(set.union(*FILES.values())):
        upload = Upload(len(name), time.time())
        access = tree.access(f"/s/{name}", Right.WRITE)
        if name != "a.txt":
            tree.run(changes.mkdir(access.parent))
        tree.run(uploads.write(access, stream(name.encode()), upload, hashes={}))
    return driver


def find_driver(tree: TreeEnv) -> Driver:
    return tree.run(tree.run(mounts.ready()).mounts[0].get_driver())


def list_files(tree: TreeEnv, folder: str = "/") -> set[str]:
    """The paths of the files that are not in the trash."""
    paths = set[str]()
    with suppress(EntryNotFound):  # moto lists the folders of removed objects
        for entry in tree.run(list_all(find_driver(tree).unwrap(), TreePath(folder))):
            path = f"{folder.rstrip('/')}/{entry.name}"
            if entry.name != TRASH:
                paths |= list_files(tree, path) if entry.is_dir else {path[1:]}
    return paths


def make_removal(tree: TreeEnv, name: str) -> Coroutine[Any, Any, Sequence[str]]:
    return changes.remove(tree.access("/s", Right.DELETE), [name])


def find_items(tree: TreeEnv) -> list[TrashItem]:
    return tree.run(entries.list_page(TrashQuery(Caller(tree.user)), "", 0))[0]


def remove(tree: TreeEnv, name: str = "d") -> TrashItem:
    tree.run(make_removal(tree, name))
    (item,) = find_items(tree)
    return item


def make_caller(tree: TreeEnv) -> Caller:
    return Caller(tree.user, Right.DELETE)


async def restore(tree: TreeEnv, item: TrashItem) -> TrashResult:
    return await restoring.restore(make_caller(tree), [item.id], False, "")


async def delete(tree: TreeEnv, item: TrashItem) -> TrashResult:
    return await entries.delete(make_caller(tree), [item.id], "")


async def empty(tree: TreeEnv, item: TrashItem) -> TrashResult:
    return (await entries.empty(TrashQuery(make_caller(tree))))[0]


async def expire(tree: TreeEnv, item: TrashItem) -> TrashResult:
    await repair.sweep()
    return TrashResult()


@contextmanager
def meeting(*names: str) -> Iterator[None]:
    """Let two readers of rows go on together: the first calls of these functions of the records that find rows."""
    barrier, numbers = threading.Barrier(2, timeout=WAIT_SECONDS), itertools.count()

    def wait_after(read: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            rows = read(*args, **options)
            if rows and next(numbers) < barrier.parties:
                barrier.wait()
            return rows

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(trash, name, wait_after(getattr(trash, name)))
        yield


async def gather(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    return await asyncio.gather(*works)


def check_state(tree: TreeEnv, is_restored: bool) -> None:
    """Require that everything is back, or nothing, and that no record is left."""
    assert list_files(tree) == set.union(*FILES.values()) - (set() if is_restored else FILES["d"])
    assert (find_items(tree), trash.list_intents(10)) == ([], [])


@pytest.mark.parametrize(
    ("other", "reads"),
    [(restore, "get_many"), (delete, "get_many"), (empty, "list_owned")],
    ids=["restore-get_many", "delete-get_many", "empty-list_owned"],
)
def test_restore_beside_another_request_has_one_winner(
    tree: TreeEnv, storage: Driver, other: Callable[..., Coroutine[Any, Any, TrashResult]], reads: str
) -> None:
    item = remove(tree)
    with meeting(*{"get_many", reads}):
        first, second = tree.run(gather(restore(tree, item), other(tree, item)))
    (winner,) = (outcome for outcome in (first, second) if outcome.done)
    (loser,) = (outcome for outcome in (first, second) if not outcome.done)
    assert (winner.failed, [id for id, _ in loser.failed]) == ([], [item.id])
    assert isinstance(loser.failed[0][1], EntryNotFound)
    check_state(tree, is_restored=winner is first or other is restore)


def test_deletion_beside_another_one_has_one_winner(tree: TreeEnv, storage: Driver) -> None:
    item = remove(tree)
    with meeting("get_many"):
        outcomes = tree.run(gather(delete(tree, item), delete(tree, item)))
    assert sorted(len(outcome.done) for outcome in outcomes) == [0, 1]
    assert [str(problem) for outcome in outcomes for _, problem in outcome.failed] == [claims.GONE]
    check_state(tree, is_restored=False)


def test_restore_beside_the_clean_up_has_one_winner(
    tree: TreeEnv, storage: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = remove(tree)
    monkeypatch.setattr(repair, "DAY_SECONDS", -1.0)  # everything has expired
    with meeting("get_many", "list_of"):
        outcome, _ = tree.run(gather(restore(tree, item), expire(tree, item)))
    assert len(outcome.done) + len(outcome.failed) == 1
    check_state(tree, is_restored=bool(outcome.done))


@pytest.mark.parametrize("name", FILES)
def test_removal_beside_another_one_makes_one_record(tree: TreeEnv, storage: Driver, name: str) -> None:
    barrier = threading.Barrier(2, timeout=WAIT_SECONDS)
    stat = type(storage.unwrap()).stat
    numbers = itertools.count()

    async def stat_together(driver: Driver, path: TreePath) -> Any:
        entry = await stat(driver, path)
        if path == f"/{name}" and next(numbers) < waits:
            await asyncio.to_thread(barrier.wait)
        return entry

    # where removals wait for each other, the second one looks when the first one is done
    waits = 2 if isinstance(storage.unwrap(), Local) else 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(storage.unwrap()), "stat", stat_together)
        assert tree.run(gather(make_removal(tree, name), make_removal(tree, name))) == [(), ()]
    (item,) = find_items(tree)
    assert trash.list_intents(10) == []
    assert list_files(tree) == set.union(*FILES.values()) - FILES[name]
    assert tree.run(restore(tree, item)).done == [(item.id, f"/s/{name}")]
    assert list_files(tree) == set.union(*FILES.values())


@pytest.mark.parametrize("storage", ["disk"], indirect=True)
def test_deletion_while_a_restore_runs_waits_and_fails(
    tree: TreeEnv, storage: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = remove(tree)
    is_moving, is_contested = asyncio.Event(), threading.Event()
    move, claim = Local.move, trash_claims.claim_deletions

    async def move_late(driver: Local, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        is_moving.set()
        assert await asyncio.to_thread(is_contested.wait, WAIT_SECONDS)
        await move(driver, path, target, overwrite=overwrite)

    def note_claim(records: Sequence[TrashEntry], *, is_locked: bool = False) -> list[ClaimResult]:
        results = claim(records, is_locked=is_locked)
        if results == [ClaimResult.CONTESTED]:
            is_contested.set()
        return results

    async def run() -> tuple[TrashResult, TrashResult]:
        restoring_task = asyncio.create_task(restore(tree, item))
        await is_moving.wait()
        return await delete(tree, item), await restoring_task

    monkeypatch.setattr(Local, "move", move_late)
    monkeypatch.setattr(trash_claims, "claim_deletions", note_claim)
    deleted, restored = tree.run(run())
    assert ([str(problem) for _, problem in deleted.failed], deleted.done) == ([claims.GONE], [])
    assert restored.done == [(item.id, "/s/d")]
    check_state(tree, is_restored=True)


@pytest.mark.parametrize("storage", ["bucket"], indirect=True)
def test_deletion_of_an_entry_that_a_task_restores_is_refused(tree: TreeEnv, storage: Driver) -> None:
    item = remove(tree)
    trash.begin_move(item.entry, "/d")
    (failure,) = tree.run(delete(tree, item)).failed
    assert isinstance(failure[1], InUse) and str(failure[1]) == claims.RESTORING
    assert tree.run(restore(tree, item)).done == [(item.id, "/s/d")]
    check_state(tree, is_restored=True)


@pytest.mark.parametrize("storage", ["disk"], indirect=True)
def test_deletion_of_an_entry_whose_restore_died_succeeds(tree: TreeEnv, storage: Driver) -> None:
    item = remove(tree)
    assert trash_claims.claim_restore(item.entry)
    assert tree.run(delete(tree, item)).done == [(item.id, "/s/d")]
    check_state(tree, is_restored=False)


@pytest.mark.parametrize("storage", ["disk"], indirect=True)
def test_listing_while_a_restore_runs_leaves_its_intent(
    tree: TreeEnv, storage: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = remove(tree)
    assert trash_claims.claim_restore(item.entry)
    monkeypatch.setattr(repair, "FINISHING_SECONDS", -1.0)
    assert [other.id for other in find_items(tree)] == [item.id]
    assert [intent.entry for intent in trash.list_intents(10)] == [item.entry]


@pytest.mark.parametrize("storage", ["disk"], indirect=True)
def test_entry_that_is_gone_is_not_listed_again(tree: TreeEnv, storage: Driver) -> None:
    item = remove(tree)
    assert tree.run(restore(tree, item)).done
    trash_claims.finish_removal(item.entry)
    trash_claims.store_again(item.entry)
    assert not trash_claims.claim_restore(item.entry)
    assert trash_claims.claim_deletions([item.entry]) == [ClaimResult.GONE]
    check_state(tree, is_restored=True)


@pytest.mark.parametrize("storage", ["disk"], indirect=True)
def test_claim_of_many_entries_tells_each_result(tree: TreeEnv, storage: Driver) -> None:
    tree.run(make_removal(tree, "a.txt"))
    tree.run(make_removal(tree, "d"))
    first, second = (item.entry for item in find_items(tree))
    assert trash_claims.claim_restore(first)
    missing = [TrashEntry(trash.make_id(), first.storage_id, "/x", False, 1, 0.0, 1, "u", trash.TrashKind.REMOVED)]
    claimed = trash_claims.claim_deletions([first, *missing, second])
    assert claimed == [ClaimResult.CONTESTED, ClaimResult.GONE, ClaimResult.TAKEN]
    assert trash_claims.claim_deletions([first], is_locked=True) == [ClaimResult.TAKEN]
