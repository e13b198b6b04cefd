"""Changes since the index was written are in the next search, and removed entries are not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.problems import Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Right
from mangrove.records import index_changes
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.search import words
from mangrove.search.database import Database
from mangrove.search.find import find
from mangrove.search.index import SearchIndex
from mangrove.search.query import Filters
from mangrove.search.threads import ThreadRunner
from mangrove.tree.listing.listing import Listings
from mangrove.tree.operations import changes, transfers, uploads
from mangrove.tree.operations.plans import TransferRequest
from tests.unit.search.search_env import SearchEnv
from tests.unit.tree.environment import stream

FILES = ("one/red.txt", "one/deep/red apple.txt", "one/deep/er/pear.txt", "two/green.txt")


@pytest.fixture
def disk(searched: SearchEnv) -> Path:
    root = searched.tree.mount_disk("/disk", *FILES)
    searched.index()
    return root


@pytest.fixture
def env(searched: SearchEnv, disk: Path) -> SearchEnv:
    return searched


def put(env: SearchEnv, path: str) -> None:
    env.tree.run(uploads.write(env.tree.access(path, Right.WRITE), stream(b"x"), Upload(1, 1.7e9), hashes={}))


def rename(env: SearchEnv, path: str, name: str) -> None:
    env.tree.run(transfers.rename(env.tree.access(path, Right.RENAME), name, False))


def remove(env: SearchEnv, folder: str, *names: str) -> None:
    env.tree.run(changes.remove(env.tree.access(folder, Right.DELETE), list(names)))


def test_what_was_put_made_renamed_and_removed_is_known_at_once(env: SearchEnv) -> None:
    put(env, "/disk/new/folder/blue.txt")
    assert env.find("blue") == ["/disk/new/folder/blue.txt"] and env.find("new") == ["/disk/new"]
    rename(env, "/disk/new/folder/blue.txt", "black.txt")
    assert env.find("blue") == [] and env.find("black") == ["/disk/new/folder/black.txt"]
    env.tree.run(changes.mkdir(env.tree.access("/disk/new/shelf", Right.WRITE)))
    assert env.find("shelf") == ["/disk/new/shelf"]
    remove(env, "/disk/new", "shelf", "folder")
    assert env.find("shelf") == env.find("black") == env.find("folder") == []
    assert env.find("red", "/disk/one") == ["/disk/one/deep/red apple.txt", "/disk/one/red.txt"]


def test_a_folder_that_was_renamed_takes_all_in_it_along(env: SearchEnv) -> None:
    rename(env, "/disk/one", "three")
    assert env.find("apple") == ["/disk/three/deep/red apple.txt"]
    assert env.find("pear") == ["/disk/three/deep/er/pear.txt"]
    assert env.find("one") == [] and env.find("deep", "/disk/three/deep") == []
    rename(env, "/disk/three/deep", "high")
    assert env.find("pear") == ["/disk/three/high/er/pear.txt"] and env.find("deep") == []
    rename(env, "/disk/three", "one")
    put(env, "/disk/one/high/er/blue pear.txt")
    assert env.find("pear") == ["/disk/one/high/er/pear.txt", "/disk/one/high/er/blue pear.txt"]


def test_what_was_moved_is_found_where_it_is(env: SearchEnv) -> None:
    ends = env.tree.access("/disk/one", Right.MOVE), env.tree.access("/disk/two", Right.MOVE)
    env.tree.run(transfers.transfer(TransferRequest(Right.MOVE, *ends, ["deep"])))
    assert env.find("apple") == ["/disk/two/deep/red apple.txt"]
    assert env.find("er", scope=1) == ["/disk/two/deep/er"]


def test_many_changes_one_after_the_other_are_all_seen(env: SearchEnv) -> None:
    for number in range(12):
        put(env, f"/disk/two/purple {number}.txt")
        assert len(env.find("purple")) == number + 1
        if number % 3 == 2:
            env.index()
    assert len(env.find("purple")) == 12


def test_a_database_that_was_lost_is_filled_again(env: SearchEnv) -> None:
    runner = ThreadRunner()
    runtime.put(SearchIndex, SearchIndex(Database(runner=runner)))
    put(env, "/disk/two/blue.txt")
    assert env.find("blue") == ["/disk/two/blue.txt"]
    runner.replace()
    assert env.find("blue") == ["/disk/two/blue.txt"] and env.find("disk") == ["/disk"]


def test_searches_at_once_agree(env: SearchEnv) -> None:
    put(env, "/disk/two/blue.txt")
    access = env.tree.access("/")

    async def search_all(*texts: str) -> list[int]:
        pages = await asyncio.gather(*(find(access, Filters(words.parse(text)), 0, 10) for text in texts))
        return [page.total for page in pages]

    assert env.tree.run(search_all("blue", "red", "blue", "green", "blue")) == [1, 2, 1, 1, 1]


def test_no_folder_is_read_by_a_search(env: SearchEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    put(env, "/disk/two/blue.txt")
    rename(env, "/disk/one", "three")
    runtime.get(Listings).clear()
    monkeypatch.setattr(Local, "list", lambda *_: fail())
    assert env.find("blue") == ["/disk/two/blue.txt"] and env.find("three") == ["/disk/three"]


async def fail() -> Any:
    raise Unreachable("no")
    yield


def test_a_folder_to_be_read_makes_the_index_worth_an_update(env: SearchEnv, disk: Path) -> None:
    (disk / "two" / "blue.txt").touch()
    assert (env.find("blue"), env.search("blue").behind) == ([], frozenset())
    index_changes.add(IndexChange(1, ChangeKind.READ, "/two"))
    assert (env.find("blue"), env.search("blue").behind) == ([], {1})
