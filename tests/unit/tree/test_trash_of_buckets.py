"""The trash and the versions of a bucket that keeps versions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.base import CopyRequest, Driver, Upload
from mangrove.identity.rights import Caller, Right
from mangrove.tree import mounts
from mangrove.tree.operations import changes, uploads
from mangrove.tree.trash import entries, restoring, versions
from mangrove.tree.trash.entries import TrashItem, TrashQuery
from tests import servers
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.tree.environment import TreeEnv, stream


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


def mount(tree: TreeEnv, endpoint: str, status: str = "Enabled") -> Any:
    bucket = Bucket(endpoint)
    tree.mount("/bucket", "S3", options=servers.s3_options(endpoint, bucket.name, trash_days=30))
    driver: Any = get_driver(tree)
    tree.run(driver.call("put_bucket_versioning", VersioningConfiguration={"Status": status}))
    return driver


def get_driver(tree: TreeEnv) -> Driver:
    return tree.run(tree.run(mounts.ready()).mounts[0].get_driver()).unwrap()


def write(tree: TreeEnv, path: str, content: bytes) -> None:
    upload = Upload(len(content), time.time())
    tree.run(uploads.write(tree.access(path, Right.WRITE), stream(content), upload, hashes={}))


def read(tree: TreeEnv, path: str) -> bytes:
    async def read_all() -> bytes:
        storage_path = await tree_access.locate()
        body: Any = await storage_path.driver.read(storage_path.path)
        return b"".join([block async for block in body])

    tree_access = tree.access(path)
    return tree.run(read_all())


def remove(tree: TreeEnv, name: str) -> None:
    tree.run(changes.remove(tree.access("/bucket", Right.DELETE), [name]))


def find_items(tree: TreeEnv) -> list[TrashItem]:
    return tree.run(entries.list_page(TrashQuery(Caller(tree.user)), "", 0))[0]


def restore(tree: TreeEnv, item: TrashItem, overwrite: bool = False) -> entries.TrashResult:
    return tree.run(restoring.restore(Caller(tree.user, Right.DELETE), [item.id], overwrite, ""))


def test_removed_folder_of_a_bucket_with_versions_is_restored(tree: TreeEnv, moto: str) -> None:
    mount(tree, moto)
    for name in ("a", "b/c"):
        write(tree, f"/bucket/d/{name}", name.encode())
    remove(tree, "d")
    with pytest.raises(EntryNotFound):
        read(tree, "/bucket/d/a")
    (item,) = find_items(tree)
    assert (item.access.path, item.entry.is_dir) == ("/bucket/d", True)
    assert restore(tree, item).done == [(item.id, "/bucket/d")]
    assert (read(tree, "/bucket/d/a"), read(tree, "/bucket/d/b/c")) == (b"a", b"b/c")
    assert find_items(tree) == []


def test_removed_file_of_a_bucket_gets_a_number_if_its_name_is_taken(tree: TreeEnv, moto: str) -> None:
    mount(tree, moto)
    write(tree, "/bucket/a.txt", b"old")
    remove(tree, "a.txt")
    write(tree, "/bucket/a.txt", b"new")
    (item,) = find_items(tree)
    assert restore(tree, item).done == [(item.id, "/bucket/a (2).txt")]
    assert (read(tree, "/bucket/a.txt"), read(tree, "/bucket/a (2).txt")) == (b"new", b"old")


def test_deleted_entry_of_a_bucket_has_no_versions_left(tree: TreeEnv, moto: str) -> None:
    driver = mount(tree, moto)
    write(tree, "/bucket/a.txt", b"old")
    remove(tree, "a.txt")
    (item,) = find_items(tree)
    caller = Caller(tree.user, Right.DELETE)
    assert len(tree.run(entries.delete(caller, [item.id], "")).done) == 1
    assert tree.run(driver.list_versions(item.access.path.below(item.mount.path))) == []


def test_entries_of_a_bucket_are_restored_after_it_got_versioning(tree: TreeEnv, moto: str) -> None:
    driver = mount(tree, moto, "Suspended")
    write(tree, "/bucket/a.txt", b"moved")
    remove(tree, "a.txt")
    tree.run(driver.call("put_bucket_versioning", VersioningConfiguration={"Status": "Enabled"}))
    write(tree, "/bucket/b.txt", b"marked")
    remove(tree, "b.txt")
    for item in find_items(tree):
        restore(tree, item)
    assert (read(tree, "/bucket/a.txt"), read(tree, "/bucket/b.txt")) == (b"moved", b"marked")
    assert find_items(tree) == []


def test_bucket_with_versions_copies_files_that_replace_others_together(
    tree: TreeEnv, moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, counts = mount(tree, moto), list[int]()
    for name in ("a", "b", "x"):
        write(tree, f"/bucket/{name}", name.encode())
    copy_from = driver.copy_from

    async def count(source: Driver, files: Sequence[CopyRequest]) -> Any:
        counts.append(len(files))
        return await copy_from(source, files)

    async def copy_all() -> Any:
        requests = []
        for name, target in (("/a", "/x"), ("/b", "/y")):
            entry = await driver.stat(TreePath(name))
            requests.append(CopyRequest(TreePath(name), TreePath(target), entry.size, entry.modified, True, entry.etag))
        (mounted,) = (await mounts.ready()).mounts
        return await (await mounted.get_driver()).copy_from(driver, requests)

    monkeypatch.setattr(driver, "copy_from", count)
    assert (tree.run(copy_all()), counts) == ([None, None], [2])
    assert (read(tree, "/bucket/x"), read(tree, "/bucket/y")) == (b"a", b"b")


def test_version_of_an_object_becomes_the_present_one(tree: TreeEnv, moto: str) -> None:
    mount(tree, moto)
    for content in (b"first", b"second!"):
        write(tree, "/bucket/a.txt", content)
    file = tree.access("/bucket/a.txt", Right.WRITE)
    rows = tree.run(versions.list_versions(file))
    assert [(row.size, row.is_latest, row.is_removed) for row in rows] == [(7, True, False), (5, False, False)]
    tree.run(versions.restore_version(file, rows[1].id))
    assert read(tree, "/bucket/a.txt") == b"first"
    assert len(tree.run(versions.list_versions(file))) == 3
    with pytest.raises(EntryNotFound):
        tree.run(versions.restore_version(file, "missing"))


def test_removed_object_has_versions_that_bring_it_back(tree: TreeEnv, moto: str) -> None:
    mount(tree, moto)
    write(tree, "/bucket/a.txt", b"first")
    remove(tree, "a.txt")
    file = tree.access("/bucket/a.txt", Right.WRITE)
    marker, first = tree.run(versions.list_versions(file))
    assert (marker.is_removed, first.is_removed) == (True, False)
    tree.run(versions.restore_version(file, first.id))
    assert read(tree, "/bucket/a.txt") == b"first"
