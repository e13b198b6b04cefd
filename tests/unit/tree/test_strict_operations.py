"""Operations that say whether a name was free."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.problems import EntryExists, EntryNotFound
from mangrove.identity.rights import Right
from mangrove.tree.operations import strict_operations
from tests.unit.tree.environment import TreeEnv, find_files

CALLERS = 4


@pytest.fixture
def tree_with_views(tree: TreeEnv) -> TreeEnv:
    """A folder at /disk, the same one at /alias, and an encrypted one at /crypt."""
    root = tree.folder / "disk"
    (root / "enc").mkdir(parents=True)
    tree.mount("/disk", options={"root_folder_path": str(root)})
    tree.mount("/alias", "Alias", options={"paths": "/disk", "write_conflict_policy": "first"})
    names = {"filename_encryption": "standard", "directory_name_encryption": "true", "filename_encoding": "base64"}
    secrets = {"remote_path": "/disk/enc", "password": "secret", "encrypted_suffix": ".bin"}
    tree.mount("/crypt", "Crypt", options={**names, **secrets})
    return tree


@pytest.mark.parametrize("folders", [["/disk"], ["/alias"], ["/crypt"], ["/disk", "/alias"]])
def test_a_new_folder_is_that_of_one_caller(tree_with_views: TreeEnv, folders: list[str]) -> None:
    tree = tree_with_views
    targets = [tree.access(f"{folder}/new", Right.WRITE) for folder in folders] * CALLERS

    async def make_all() -> list[BaseException | None]:
        return await asyncio.gather(*map(strict_operations.mkdir, targets), return_exceptions=True)

    outcomes = tree.run(make_all())
    assert outcomes.count(None) == 1
    assert {type(outcome) for outcome in outcomes if outcome is not None} == {EntryExists}


def test_a_new_folder_needs_its_parent_and_a_free_name(tree_with_views: TreeEnv) -> None:
    tree = tree_with_views
    with pytest.raises(EntryNotFound):
        tree.run(strict_operations.mkdir(tree.access("/disk/a/b", Right.WRITE)))
    tree.run(strict_operations.mkdir(tree.access("/disk/a", Right.WRITE)))
    with pytest.raises(EntryExists):
        tree.run(strict_operations.mkdir(tree.access("/disk/a", Right.WRITE)))


@pytest.mark.parametrize("name", ["secret-taken", "secret-free"])
def test_hidden_name_is_refused_taken_or_not(tree: TreeEnv, name: str) -> None:
    """The pattern hides also the name that an entry would get if its own is taken."""
    disk = tree.mount_disk("/disk", "a/f", "b/secret-taken/x")
    tree.add_rule("/disk/b", hide="secret")
    before = find_files(disk)
    with pytest.raises(strict_operations.HiddenName):
        tree.run(strict_operations.mkdir(tree.access(f"/disk/b/{name}", Right.WRITE)))
    ends = tree.access("/disk/a/f", Right.MOVE), tree.access(f"/disk/b/{name}", Right.MOVE)
    for overwrite in (False, True):
        with pytest.raises(strict_operations.HiddenName):
            tree.run(strict_operations.rename(*ends, overwrite))
    assert find_files(disk) == before
