"""Changes through a storage that leads to others are visible in those immediately; its failures set its own status."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from mangrove import configuration
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Upload
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Caller, Right
from mangrove.records import storages
from mangrove.tree import administration, mounts
from mangrove.tree.listing.listing import Listings
from mangrove.tree.operations import changes, transfers, uploads
from tests.unit.tree.environment import TreeEnv, stream

CRYPT = {"remote_path": "/source", "password": "p", "encrypted_suffix": ".bin", "filename_encryption": "off"}
ALIAS = {"paths": "/source", "write_conflict_policy": "all", "put_conflict_policy": "all"}
TOPS = {"Alias": ("Alias", ALIAS), "Crypt": ("Crypt", CRYPT), "Alias of Crypt": ("Alias", ALIAS | {"paths": "/crypt"})}


@pytest.fixture(params=TOPS)
def env(request: pytest.FixtureRequest, tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> TreeEnv:
    """`/top` leads to `/source`, whose listings are cached like those of a server."""
    tree.mount_disk("/source", "d/", cache_expiration=1)
    monkeypatch.setattr(Local, "capabilities", replace(Local.capabilities, get_change_token=False))
    monkeypatch.setattr(Local, "config", replace(Local.config, no_cache=False))
    tree.mount("/crypt", "Crypt", options=CRYPT)
    driver, options = TOPS[request.param]
    tree.mount("/top", driver, options=options)
    return tree


def list_names(env: TreeEnv, path: str) -> list[str]:
    listing = env.run(env.access(path).list_folder())
    return sorted(entry.name.removesuffix(".bin") for entry in listing.entries)


def test_a_change_through_it_shows_in_what_it_leads_to(env: TreeEnv) -> None:
    def change(work: Coroutine[Any, Any, Any]) -> list[str]:
        list_names(env, "/source/d")
        env.run(work)
        return list_names(env, "/source/d")

    put = env.access("/top/d/f", Right.WRITE)
    assert change(uploads.write(put, stream(b"x"), Upload(1, 1.7e9), hashes={})) == ["f"]
    assert change(transfers.rename(env.access("/top/d/f", Right.RENAME), "g", False)) == ["g"]
    assert change(changes.mkdir(env.access("/top/d/e/e", Right.WRITE))) == ["e", "g"]
    assert change(changes.remove(env.access("/top/d", Right.DELETE), ["g"])) == ["e"]
    assert list_names(env, "/top/d") == ["e"]


def test_a_change_that_nobody_told_of_is_not_seen(env: TreeEnv) -> None:
    """So the test above shows something."""
    assert list_names(env, "/source") == ["d"]
    (env.folder / "source" / "new").mkdir()
    assert list_names(env, "/source") == ["d"]


def test_a_storage_that_is_not_there_is_forgotten(tree: TreeEnv) -> None:
    Listings().forget(17, TreePath("/d"))
    Listings().forget_below(17)


def test_what_a_storage_reports_is_its_status_and_it_goes_on(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/source", "plain.txt")
    crypt = tree.mount("/crypt", "Crypt", options=CRYPT)
    tree.run(mounts.load())
    assert storages.get(crypt.id).status == mounts.WORKING
    assert list_names(tree, "/crypt") == []
    assert storages.get(crypt.id).status.startswith("none of the 1 names in /source can be decrypted")
    put = tree.access("/crypt/f", Right.WRITE)
    tree.run(uploads.write(put, stream(b"x"), Upload(1, 1.7e9), hashes={}))
    assert list_names(tree, "/crypt") == ["f"]
    assert storages.get(crypt.id).status == mounts.WORKING
    assert len([*disk.iterdir()]) == 2


def test_the_passwords_of_a_new_storage_are_stored_obscured(tree: TreeEnv) -> None:
    tree.mount_disk("/source", "plain.txt")
    crypt = tree.mount("/crypt", "Crypt", options=CRYPT)
    tree.run(mounts.load())
    assert storages.get(crypt.id).addition.count("___Obfuscated___") == 2


def test_a_remote_that_is_disabled_is_not_served(tree: TreeEnv) -> None:
    tree.mount_disk("/source", "f.bin")
    tree.mount("/crypt", "Crypt", options=CRYPT)
    assert list_names(tree, "/crypt") == []
    (source,) = [storage.id for storage in storages.all() if storage.mount_path == "/source"]
    tree.run(administration.disable(Caller(tree.user), source))
    configuration.get_sync()
    with pytest.raises(StorageProblem, match="failed get storage: storage not found; rawPath: /source"):
        list_names(tree, "/crypt")
