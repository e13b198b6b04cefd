"""What changed since the index was written is found in the next search, and what is gone is not."""

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
from mangrove.records.files import index_marks
from mangrove.search import overlay, words
from mangrove.search.database import Database
from mangrove.search.find import find
from mangrove.search.query import Filters
from mangrove.tree.listing.listing import Listings
from mangrove.tree.operations import changes, transfers, uploads
from mangrove.tree.operations.transfers import OnConflict
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
    env.tree.run(changes.rename(env.tree.access(path, Right.RENAME), name, False))


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
    env.tree.run(transfers.move(*ends, ["deep"], OnConflict()))
    assert env.find("apple") == ["/disk/two/deep/red apple.txt"]
    assert env.find("er", scope=1) == ["/disk/two/deep/er"]


def test_many_changes_one_after_the_other_are_all_seen(env: SearchEnv) -> None:
    for number in range(12):
        put(env, f"/disk/two/purple {number}.txt")
        assert len(env.find("purple")) == number + 1
        if number % 3 == 2:
            env.index()
    assert len(env.find("purple")) == 12


def test_what_lies_over_the_index_goes_when_the_index_knows_it(env: SearchEnv) -> None:
    put(env, "/disk/two/blue.txt")
    assert env.find("blue") == ["/disk/two/blue.txt"]
    count = "SELECT (SELECT count(*) FROM fresh_names WHERE storage <> 0) + (SELECT count(*) FROM masked)"
    assert env.tree.run(runtime.get(Database).run(count)) != [(0,)]
    env.index()
    assert env.find("blue") == ["/disk/two/blue.txt"]
    assert env.tree.run(runtime.get(Database).run(count)) == [(0,)]


def test_a_database_that_was_lost_is_filled_again(env: SearchEnv) -> None:
    put(env, "/disk/two/blue.txt")
    assert env.find("blue") == ["/disk/two/blue.txt"]
    runtime.get(Database).replace()
    assert env.find("blue") == ["/disk/two/blue.txt"] and env.find("disk") == ["/disk"]


def test_a_folder_that_nobody_changed_since_is_not_read_again(env: SearchEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    get = Listings.get

    async def note(self: Listings, located: Any, **options: Any) -> Any:
        reads.append(located.path)
        return await get(self, located, **options)

    put(env, "/disk/two/blue.txt")
    monkeypatch.setattr(overlay, "SETTLED_SECONDS", -60.0)
    monkeypatch.setattr(Listings, "get", note)
    assert [len(env.find("blue")) for _ in range(3)] == [1, 1, 1]
    assert reads.count("/two") == 1
    put(env, "/disk/two/blue 2.txt")
    monkeypatch.setattr(overlay, "SETTLED_SECONDS", 60.0)
    assert len(env.find("blue")) == 2


def test_what_does_not_fit_stays_and_is_told(env: SearchEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "MOST_FOLDERS", 1)
    rename(env, "/disk/one", "three")
    put(env, "/disk/two/blue.txt")
    found = env.search("blue")
    assert (found.total, found.behind) == (1, {1})
    assert env.find("three") == ["/disk/three"] and env.find("one", scope=1) == []
    assert env.search("blue").behind == {1}
    env.index()
    assert env.find("apple") == ["/disk/three/deep/red apple.txt"] and not env.search("blue").behind


def test_a_new_file_below_a_folder_that_does_not_fit_is_found_at_once(
    env: SearchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "MOST_FOLDERS", 1)
    rename(env, "/disk/one", "three")
    put(env, "/disk/three/deep/blue.txt")
    assert env.find("blue") == ["/disk/three/deep/blue.txt"]


def test_very_many_rows_stay_in_the_index(env: SearchEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "MOST_ROWS", 3)
    put(env, "/disk/two/a.txt")
    assert env.find("a.txt") == ["/disk/two/a.txt"]
    for name in ("b.txt", "c.txt"):
        put(env, f"/disk/two/{name}")
    assert env.search("txt").behind == {1}


def test_a_storage_that_does_not_answer_delays_a_search_no_longer_than_its_budget(
    env: SearchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(*_: Any) -> Any:
        await asyncio.sleep(60)
        yield []

    monkeypatch.setattr(overlay, "BUDGET_SECONDS", 0.05)
    put(env, "/disk/two/blue.txt")
    monkeypatch.setattr(Local, "list", wait)
    runtime.get(Listings).clear()
    found = env.search("green")
    assert (found.total, found.behind) == (1, {1})


def test_a_folder_that_cannot_be_read_stays_as_the_index_has_it(
    env: SearchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(env, "/disk/two/blue.txt")
    monkeypatch.setattr(Local, "list", lambda *_: fail())
    runtime.get(Listings).clear()
    found = env.search("green")
    assert (found.total, found.behind) == (1, {1})


async def fail() -> Any:
    raise Unreachable("no")
    yield


def test_searches_at_once_agree(env: SearchEnv) -> None:
    put(env, "/disk/two/blue.txt")
    access = env.tree.access("/")

    async def search_all(*texts: str) -> list[int]:
        pages = await asyncio.gather(*(find(access, Filters(words.parse(text)), 0, 10) for text in texts))
        return [page.total for page in pages]

    assert env.tree.run(search_all("blue", "red", "blue", "green", "blue")) == [1, 2, 1, 1, 1]


def test_other_programs_are_not_noticed_without_a_mark(env: SearchEnv, disk: Path) -> None:
    (disk / "two" / "blue.txt").touch()
    assert env.find("blue") == []
    index_marks.put(1, [("/two", False)])
    assert env.find("blue") == ["/disk/two/blue.txt"]
