"""Listings that are cached while a change is made: none of them lacks its entries afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Caller, Right
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import changes, journal, uploads
from mangrove.tree.operations.journal import StorageChange
from mangrove.tree.trash import entries, moving, restoring
from mangrove.tree.trash.entries import TrashQuery
from tests import servers
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.tree.environment import TreeEnv, stream

TARGET = TreePath("/d/e/a.txt")


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(tree: TreeEnv, moto: str) -> StoragePath:
    """The root of a bucket with a file, whose folders come and go with their objects."""
    tree.mount(
        "/bucket", "S3", options=servers.s3_options(moto, Bucket(moto).name, trash_days=30), cache_expiration=30
    )  # fmt: skip
    tree.run(changes.mkdir(tree.access("/bucket/source", Right.WRITE)))
    write(tree, "/bucket/source/a.txt")
    return tree.run(tree.access("/bucket").locate())


def write(tree: TreeEnv, path: str) -> None:
    access = tree.access(path, Right.WRITE)
    tree.run(uploads.write(access, stream(b"content"), Upload(7, time.time()), hashes={}))


async def list_names(folder: StoragePath) -> list[str]:
    return [entry.name for entry in (await listings().get(folder)).entries]


def move(source: StoragePath, target: StoragePath) -> StorageChange:
    return journal.move(source, target, is_folder=False, replaces=False)


def copy(source: StoragePath, target: StoragePath) -> StorageChange:
    return journal.copy(source, target, is_folder=False, replaces=False)


def restore(source: StoragePath, target: StoragePath) -> StorageChange:
    return journal.restore(target, is_folder=False)


def add(source: StoragePath, target: StoragePath) -> StorageChange:
    return journal.add(target)


def add_many(source: StoragePath, target: StoragePath) -> StorageChange:
    return journal.add_many([target])


@pytest.mark.parametrize("make_change", [move, copy, restore, add, add_many])
def test_listing_cached_during_a_change_has_the_folders_that_come_with_it(
    tree: TreeEnv, bucket: StoragePath, make_change: Callable[[StoragePath, StoragePath], StorageChange]
) -> None:
    """The target folder was removed after the change had begun, and a bucket makes it with the object."""

    async def run() -> None:
        source, target = bucket.with_path(TreePath("/source/a.txt")), bucket.with_path(TARGET)
        async with make_change(source, target):
            assert "d" not in await list_names(bucket)
            await bucket.driver.copy(source.path, target.path)
        assert "d" in await list_names(bucket)
        assert await list_names(bucket.with_path(TARGET.parent)) == ["a.txt"]

    tree.run(run())


def test_restore_into_a_folder_that_is_removed_meanwhile_is_listed(
    tree: TreeEnv, bucket: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.run(changes.mkdir(tree.access("/bucket/d/e", Right.WRITE)))
    write(tree, f"/bucket{TARGET}")
    tree.run(changes.remove(tree.access("/bucket/d/e", Right.DELETE), ["a.txt"]))
    (item,) = tree.run(entries.list_page(TrashQuery(Caller(tree.user)), "", 0))[0]
    root = tree.access("/bucket", Right.DELETE)
    move_content = restoring.move_content

    async def move_after_removal(*paths: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(restoring, "move_content", move_content)
            await changes.remove(root, ["d"])
        assert "d" not in await list_names(bucket)
        await moving.move_content(*paths)

    monkeypatch.setattr(restoring, "move_content", move_after_removal)
    outcome = tree.run(restoring.restore(Caller(tree.user, Right.DELETE), [item.id], False, ""))
    assert outcome.done == [(item.id, f"/bucket{TARGET}")]
    assert "d" in tree.run(list_names(bucket))
