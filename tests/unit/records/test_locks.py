"""WebDAV locks on the real engine: of two that exclude each other, one is never taken."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.core.paths import TreePath
from mangrove.records.files import locks
from mangrove.records.files.locks import Lock, Locked

pytestmark = pytest.mark.usefixtures("records")
LONG = "/" + "/".join(["n" * 200] * 12)  # longer than a key of DynamoDB


def make_lock(path: str, token: str = "t", exclusive: bool = True, deep: bool = True, seconds: float = 60) -> Lock:
    return Lock(token, path, exclusive, deep, "<me/>", 7, time.time() + seconds)


def find(path: str) -> set[str]:
    return {lock.token for lock in locks.find_covering(TreePath(path))}


@pytest.mark.parametrize("path", ["/a/b", LONG])
def test_a_lock_covers_its_path_and_a_deep_one_what_is_below(path: str) -> None:
    deep, shallow = make_lock(path, "deep"), make_lock("/c", "shallow", deep=False)
    for lock in (deep, shallow):
        locks.take(lock)
    assert find(path) == find(f"{path}/x/y") == {"deep"} and find("/c") == {"shallow"}
    assert find("/c/x") == find("/a") == find(f"{path}x") == set()
    assert locks.find_below(TreePath(path).parent) == [deep]
    assert locks.find_below(TreePath(path)) == [] and len(locks.find_below(TreePath("/"))) == 2
    assert locks.release(deep) and not locks.release(deep)
    assert find(path) == set()


@pytest.mark.parametrize(("above", "below"), [("/a", "/a/b"), (LONG, f"{LONG}/x"), ("/", "/a")])
def test_what_excludes_each_other_is_not_taken_both(above: str, below: str) -> None:
    for first, second in ((above, below), (below, above), (above, above)):
        held = make_lock(first, "first")
        locks.take(held)
        with pytest.raises(Locked) as caught:
            locks.take(make_lock(second, "second", exclusive=False))
        assert caught.value.path == first
        locks.release(held)
    locks.take(make_lock(above, "one", exclusive=False))
    locks.take(make_lock(below, "other", exclusive=False))
    assert find(below) == {"one", "other"}


def test_one_that_has_ended_binds_nobody_and_is_swept() -> None:
    locks.take(make_lock("/a", "old", seconds=-5))
    assert find("/a") == set()
    locks.sweep()
    assert locks.LockRecord.count() == 0
    lock = make_lock("/a", "new")
    locks.take(lock)
    assert locks.refresh(lock, time.time() - 5) and find("/a") == set()
    assert not locks.refresh(make_lock("/b"), time.time())


@pytest.mark.parametrize("places", [["/a"] * 6, ["/a", "/a/b", "/a/b/c", "/a/d", "/a", "/a/b"]])
def test_of_many_at_once_at_most_one_is_taken(places: list[str]) -> None:
    def take(number: int) -> bool:
        try:
            locks.take(make_lock(places[number], str(number)))
        except Locked:
            return False
        return True

    with ThreadPoolExecutor(len(places)) as pool:
        taken = [number for number, done in enumerate(pool.map(take, range(len(places)))) if done]
    held = {lock.token for path in set(places) for lock in locks.find_covering(TreePath(path))}
    assert held == set(map(str, taken))
    for one in taken:
        others = [places[number] for number in taken if number != one]
        assert not any(TreePath(place).within(TreePath(places[one])) for place in others)
    assert len(set(places)) > 1 or len(taken) == 1
