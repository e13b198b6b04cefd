"""The trash of a storage: what is removed or replaced can be restored."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, BadRequest, EntryNotFound, NameConflict, StorageFull, Unreachable
from mangrove.drivers.base import Entry, Upload
from mangrove.drivers.local.driver import Local
from mangrove.drivers.part_names import TRASH, leads_to_trash
from mangrove.identity.rights import Caller, Right
from mangrove.identity.scopes import TokenMode, TokenProtocol, TokenScope
from mangrove.records import trash
from mangrove.records.trash import TrashKind
from mangrove.tree import access, mounts
from mangrove.tree.listing import entries as listed
from mangrove.tree.operations import changes, small_uploads, transfers, uploads
from mangrove.tree.operations.plans import OnConflict, TransferRequest
from mangrove.tree.operations.small_uploads import SmallUpload
from mangrove.tree.trash import entries, restoring
from mangrove.tree.trash.content import get_path
from mangrove.tree.trash.entries import TrashItem, TrashQuery
from mangrove.tree.trash.keeping import TrashDriver
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv, find_files, stream


def mount(tree: TreeEnv, *names: str, **options: int) -> Path:
    root = tree.folder / "disk"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    root.mkdir(exist_ok=True)
    tree.mount("/disk", options={"root_folder_path": str(root), "show_hidden": True, "trash_days": 30} | options)
    return root


def remove(tree: TreeEnv, *names: str, folder: str = "/disk") -> None:
    assert tree.run(changes.remove(tree.access(folder, Right.DELETE), names)) == ()


def write(tree: TreeEnv, path: str, content: bytes) -> None:
    upload = Upload(len(content), time.time())
    tree.run(uploads.write(tree.access(path, Right.WRITE), stream(content), upload, hashes={}))


def find_items(tree: TreeEnv, folder: str = "") -> list[TrashItem]:
    query = TrashQuery(Caller(tree.user), tree.access(folder) if folder else None)
    return tree.run(entries.list_page(query, "", 0))[0]


def restore(tree: TreeEnv, *items: TrashItem, overwrite: bool = False) -> entries.TrashResult:
    caller = Caller(tree.user, Right.DELETE)
    return tree.run(restoring.restore(caller, [item.id for item in items], overwrite, ""))


def list_shown(root: Path) -> set[str]:
    return {name for name in find_files(root) if not name.startswith(TRASH)}


def test_removed_folder_is_restored_with_all_it_holds(tree: TreeEnv) -> None:
    root = mount(tree, "a/b/one.txt", "a/two.txt", "other.txt")
    remove(tree, "a")
    assert list_shown(root) == {"other.txt"}
    (item,) = find_items(tree)
    assert (item.access.path, item.entry.is_dir, item.entry.remover) == ("/disk/a", True, "u")
    assert item.expires == item.entry.removed + 30 * 86400
    assert restore(tree, item).done == [(item.id, "/disk/a")]
    assert list_shown(root) == {"a/b/one.txt", "a/two.txt", "other.txt"}
    assert find_items(tree) == []
    assert os.listdir(root / TRASH) == []


def test_restore_makes_the_missing_folders_anew(tree: TreeEnv) -> None:
    root = mount(tree, "a/b/one.txt")
    remove(tree, "one.txt", folder="/disk/a/b")
    remove(tree, "a")
    newest, file = find_items(tree)
    assert (newest.access.path, file.access.path) == ("/disk/a", "/disk/a/b/one.txt")
    restore(tree, file)
    assert list_shown(root) == {"a/b/one.txt"}


def test_restore_to_a_taken_name_gets_a_number(tree: TreeEnv) -> None:
    root = mount(tree, "report.pdf")
    remove(tree, "report.pdf")
    write(tree, "/disk/report.pdf", b"new")
    (item,) = find_items(tree)
    assert restore(tree, item).done == [(item.id, "/disk/report (2).pdf")]
    assert (root / "report.pdf").read_text() == "new"
    assert (root / "report (2).pdf").read_text() == "report.pdf"


def test_restore_that_overwrites_keeps_the_replaced_file(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt")
    remove(tree, "a.txt")
    write(tree, "/disk/a.txt", b"new")
    (item,) = find_items(tree)
    restore(tree, item, overwrite=True)
    assert (root / "a.txt").read_text() == "a.txt"
    (replaced,) = find_items(tree)
    assert (replaced.entry.kind, replaced.entry.size) == (TrashKind.REPLACED, 3)


def test_upload_that_overwrites_keeps_the_replaced_file(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt")
    write(tree, "/disk/a.txt", b"new")
    (item,) = find_items(tree)
    assert (item.entry.kind, item.access.path) == (TrashKind.REPLACED, "/disk/a.txt")
    assert (root / get_path(item.entry).lstrip("/")).read_text() == "a.txt"
    assert restore(tree, item).done == [(item.id, "/disk/a (2).txt")]


@pytest.mark.parametrize("overwrite", [True, False])
def test_small_uploads_that_overwrite_keep_the_replaced_files(tree: TreeEnv, overwrite: bool) -> None:
    root = mount(tree, "a.txt", "b.txt")
    files = [
        SmallUpload(tree.access(f"/disk/{name}", Right.WRITE), b"new", Upload(3, time.time()), {})
        for name in ("a.txt", "b.txt", "c.txt")
    ]
    problems = tree.run(small_uploads.write(files, overwrite=overwrite))
    assert [type(problem) for problem in problems] == [type(None) if overwrite else NameConflict] * 2 + [type(None)]
    assert (root / "a.txt").read_text() == ("new" if overwrite else "a.txt")
    assert (root / "c.txt").read_text() == "new"
    old_texts = {(root / get_path(item.entry).lstrip("/")).read_text() for item in find_items(tree)}
    assert old_texts == ({"a.txt", "b.txt"} if overwrite else set())


def test_upload_that_fails_leaves_the_old_file_and_no_trash(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt")
    upload = Upload(10, time.time())
    with pytest.raises(BadRequest):
        tree.run(uploads.write(tree.access("/disk/a.txt", Right.WRITE), stream(b"short"), upload, hashes={}))
    assert (root / "a.txt").read_text() == "a.txt"
    assert find_items(tree) == []
    assert tree.run(asyncio.to_thread(trash.list_intents, 10)) == []


def test_move_that_overwrites_keeps_the_replaced_file(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt", "sub/a.txt")
    request = TransferRequest(
        Right.MOVE, tree.access("/disk/sub", Right.MOVE), tree.access("/disk", Right.MOVE), ["a.txt"],
        OnConflict(overwrite=True),
    )  # fmt: skip
    assert tree.run(transfers.transfer(request)) == []
    assert (root / "a.txt").read_text() == "sub/a.txt"
    (item,) = find_items(tree)
    assert (item.entry.kind, item.entry.size) == (TrashKind.REPLACED, len("a.txt"))


def test_storage_without_trash_removes_for_good(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt", trash_days=0)
    remove(tree, "a.txt")
    assert find_files(root) == set()
    assert find_items(tree) == []


def test_removal_through_an_alias_goes_into_the_trash(tree: TreeEnv) -> None:
    mount(tree, "a.txt")
    tree.mount("/alias", driver="Alias", options={"paths": "/disk", "write_conflict_policy": "first"})
    remove(tree, "a.txt", folder="/alias")
    assert [item.access.path for item in find_items(tree)] == ["/disk/a.txt"]


@pytest.mark.parametrize("name", [TRASH, f"{TRASH}/x", TRASH.upper(), f"sub/{TRASH}"])
def test_nobody_reaches_the_hidden_folder(tree: TreeEnv, name: str) -> None:
    mount(tree, "a.txt")
    remove(tree, "a.txt")
    with pytest.raises(EntryNotFound):
        tree.run(listed.stat(tree.access(f"/disk/{name}")))
    with pytest.raises((EntryNotFound, BadRequest)):
        tree.run(changes.mkdir(tree.access(f"/disk/{name}", Right.WRITE)))


def test_hidden_folder_is_in_no_listing(tree: TreeEnv) -> None:
    mount(tree, "a.txt", "b.txt")
    remove(tree, "a.txt")
    assert [entry.name for entry in tree.run(tree.access("/disk").list_folder()).entries] == ["b.txt"]


def test_removal_of_the_hidden_folder_is_refused(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt")
    remove(tree, "a.txt")
    with pytest.raises(EntryNotFound):
        remove(tree, TRASH)
    assert (root / TRASH).is_dir()
    assert len(find_items(tree)) == 1


def test_name_that_only_begins_like_the_hidden_folder_is_another() -> None:
    assert not leads_to_trash(f"/a/{TRASH}-2")
    assert leads_to_trash(f"/a/{TRASH}. ")


def test_restore_requires_the_right_to_write_and_to_remove(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt")
    remove(tree, "a.txt")
    (item,) = find_items(tree)
    for missing in (Right.WRITE, Right.DELETE):
        tree.change_user(ALL_RIGHTS & ~missing)
        outcome = restore(tree, item)
        assert [type(problem) for _, problem in outcome.failed] == [AccessDenied]
    tree.change_user()
    tree.add_rule("/disk", write_users=[tree.user.id + 1], write_users_sub=True)
    assert restore(tree, item).done == []
    assert list_shown(root) == set()


def test_other_user_sees_only_the_entries_of_a_folder(tree: TreeEnv) -> None:
    mount(tree, "a.txt")
    remove(tree, "a.txt")
    tree.user = replace(tree.user, id=tree.user.id + 1)
    assert find_items(tree) == []
    assert [item.access.path for item in find_items(tree, "/disk")] == ["/disk/a.txt"]
    tree.user = replace(tree.user, permission=0)
    assert find_items(tree, "/disk") == []


def test_token_reaches_only_what_was_removed_below_its_folder(tree: TreeEnv) -> None:
    root = mount(tree, "in/a.txt", "out/b.txt")
    for folder, name in (("in", "a.txt"), ("out", "b.txt")):
        remove(tree, name, folder=f"/disk/{folder}")
    ids = [item.id for item in find_items(tree)]
    scope = TokenScope(1, TreePath("/disk/in"), TokenMode.BOTH, frozenset(TokenProtocol))
    query = TrashQuery(Caller(tree.user, scope=scope), None)
    assert [item.access.path for item in tree.run(entries.list_page(query, "", 0))[0]] == ["/disk/in/a.txt"]
    outcome = tree.run(restoring.restore(Caller(tree.user, Right.DELETE, scope=scope), ids, False, ""))
    assert [path for _, path in outcome.done] == ["/disk/in/a.txt"]
    assert list_shown(root) == {"in/a.txt", "out/"}


def test_deleted_entry_is_gone_from_the_disk(tree: TreeEnv) -> None:
    root = mount(tree, "a/b.txt", "c.txt")
    remove(tree, "a", "c.txt")
    caller = Caller(tree.user, Right.DELETE)
    newest = find_items(tree)[0]
    assert tree.run(entries.delete(caller, [newest.id], "")).failed == []
    outcome, has_more = tree.run(entries.empty(TrashQuery(caller)))
    assert (len(outcome.done), has_more) == (1, False)
    assert find_files(root) == {f"{TRASH}/"}
    assert tree.run(asyncio.to_thread(trash.list_intents, 10)) == []


def test_newest_removal_of_a_name_is_found_without_its_id(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt", "b.txt")
    remove(tree, "a.txt")
    write(tree, "/disk/a.txt", b"second")
    remove(tree, "a.txt", "b.txt")
    caller = Caller(tree.user, Right.DELETE)
    ids = tree.run(entries.find_newest(caller, tree.access("/disk", Right.DELETE), ["a.txt", "b.txt", "x"]))
    assert len(tree.run(restoring.restore(caller, ids, False, "")).done) == 2
    assert (root / "a.txt").read_text() == "second"


def test_pages_of_the_trash_have_every_entry_once(tree: TreeEnv) -> None:
    names = [f"{number}.txt" for number in range(7)]
    mount(tree, *names)
    remove(tree, *names)
    listed_names: list[str] = []
    start, query = "", TrashQuery(Caller(tree.user))
    while True:
        items, start = tree.run(entries.list_page(query, start, 3))
        listed_names += [item.access.path.name for item in items]
        if not start:
            break
    assert listed_names == names[::-1]


@pytest.mark.parametrize("ids", [[], ["x"], ["1-../a"], ["1-a"] * (entries.MAX_IDS_PER_REQUEST + 1)])
def test_ids_that_are_none_or_too_many_are_refused(ids: list[str]) -> None:
    with pytest.raises(BadRequest):
        entries.parse_ids(ids)


def test_most_ids_of_a_request_are_taken() -> None:
    ids = [f"1-{number}" for number in range(entries.MAX_IDS_PER_REQUEST)]
    assert len(entries.parse_ids(ids)) == entries.MAX_IDS_PER_REQUEST


def test_versions_of_a_file_are_kept_up_to_the_limit(tree: TreeEnv) -> None:
    root = mount(tree, "a.txt", keep_versions=2)
    for content in (b"1", b"2", b"3"):
        write(tree, "/disk/a.txt", content)
    storage_id = tree.run(mounts.ready()).mounts[0].storage.id
    versions = trash.list_versions(storage_id, "/a.txt", 10)
    assert [(root / get_path(version).lstrip("/")).read_bytes() for version in versions] == [b"2", b"1"]
    assert find_items(tree) == []
    assert len(os.listdir(root / TRASH)) == 2


def test_write_that_fails_after_the_replacement_keeps_the_old_file(tree: TreeEnv) -> None:
    """The storage has replaced the file, and says that it failed."""
    root = mount(tree, "a.txt")
    storage_id = tree.run(mounts.ready()).mounts[0].storage.id
    driver = tree.run(tree.run(mounts.ready()).mounts[0].get_driver())

    async def replace_and_fail() -> None:
        assert isinstance(driver, TrashDriver)
        async with driver.replacing(TreePath("/a.txt")) as keep:
            await keep()
            (root / "new").write_text("new")
            os.replace(root / "new", root / "a.txt")
            raise Unreachable

    with pytest.raises(Unreachable):
        tree.run(replace_and_fail())
    (entry,) = trash.list_of(storage_id, 10)
    assert (root / get_path(entry).lstrip("/")).read_text() == "a.txt"
    assert (root / "a.txt").read_text() == "new"


def test_file_that_cannot_be_looked_up_is_not_replaced(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """It might have to be kept."""
    root = mount(tree, "a.txt")
    driver = tree.run(tree.run(mounts.ready()).mounts[0].get_driver())
    assert isinstance(driver, TrashDriver)

    async def lose_connection(path: TreePath) -> None:
        raise Unreachable

    monkeypatch.setattr(driver.driver, "stat", lose_connection)
    with pytest.raises(Unreachable):
        tree.run(driver.write(TreePath("/a.txt"), stream(b"new"), Upload(3, time.time())))
    assert (root / "a.txt").read_text() == "a.txt"


@pytest.mark.parametrize(("limit", "names"), [(0, {"a.txt", "b.txt"}), (1, set())])
def test_full_storage_deletes_the_oldest_of_a_trash_with_a_limit(
    tree: TreeEnv, limit: int, names: set[str]
) -> None:  # fmt: skip
    mount(tree, "a.txt", "b.txt", trash_max_size=limit)
    remove(tree, "a.txt", "b.txt")
    driver = tree.run(tree.run(mounts.ready()).mounts[0].get_driver())

    async def fill_disk() -> AsyncIterator[bytes]:
        yield b"part"
        raise StorageFull

    with pytest.raises(StorageFull):
        tree.run(driver.write(TreePath("/large"), fill_disk(), Upload(1 << 20, time.time())))
    assert {item.access.path.name for item in find_items(tree)} == names


def test_large_folder_goes_into_the_trash_in_one_rename(tree: TreeEnv) -> None:
    root = mount(tree, "warm.txt")
    remove(tree, "warm.txt")
    (root / "file").touch()
    seconds: list[float] = []
    for attempt in range(3):
        for folder in range(10):
            (root / str(attempt) / str(folder)).mkdir(parents=True)
            for number in range(1_000):
                os.link(root / "file", root / str(attempt) / str(folder) / str(number))
        folder_access = tree.access("/disk", Right.DELETE)
        began_at = time.perf_counter()
        tree.run(changes.remove(folder_access, [str(attempt)]))
        seconds.append(time.perf_counter() - began_at)
        assert find_items(tree)[0].access.path == f"/disk/{attempt}"
    print(f"10,000 files were moved into the trash in {min(seconds) * 1000:.1f} ms")


def test_caller_of_a_request_is_the_remover(tree: TreeEnv) -> None:
    mount(tree, "a.txt")

    async def remove_by(name: str) -> None:
        caller = Caller(replace(tree.user, username=name, id=99), Right.DELETE)
        await changes.remove(await access.at(caller, "/disk"), ["a.txt"])

    tree.run(remove_by("somebody"))
    assert [(item.entry.owner, item.entry.remover) for item in find_items(tree, "/disk")] == [(99, "somebody")]


def test_uploads_that_replace_each_other_are_all_kept(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    root, store = mount(tree, "a.txt"), Local.write

    async def store_after_others(driver: Local, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        content = b"".join([chunk async for chunk in body])
        for _ in range(100):
            await asyncio.sleep(0)
        return await store(driver, path, stream(content), upload)

    target = tree.access("/disk/a.txt", Right.WRITE)

    async def write_all() -> None:
        bodies = [f"edit {number}".encode() for number in range(8)]
        uploaded = (uploads.write(target, stream(body), Upload(len(body), time.time()), hashes={}) for body in bodies)
        await asyncio.gather(*uploaded)

    monkeypatch.setattr(Local, "write", store_after_others)
    tree.run(write_all())
    contents = {(root / name).read_text() for name in find_files(root)}
    assert contents == {"a.txt", *(f"edit {number}" for number in range(8))}
