"""WebDAV locks on the real engine: of two on one file that exclude each other one is never stored."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mangrove.core.paths import TreePath
from mangrove.records import webdav_locks
from mangrove.records.store.base import delete_expired
from mangrove.records.webdav_locks import Lock, LockConflict, LockedFile, LockQuotaExceeded

pytestmark = pytest.mark.usefixtures("records")
LONG = "/" + "/".join(["n" * 200] * 12)  # longer than a key of DynamoDB
DISK = "files#1"


def make_lock(*paths: str, token: str = "t", exclusive: bool = True, user_id: int = 7, seconds: float = 3600) -> Lock:
    files = [(DISK, path) for path in paths]
    return Lock(token, f"/mount{paths[0]}", exclusive, True, "<me/>", user_id, time.time() + seconds, files)


def find(path: str, storage: str = DISK) -> set[str]:
    file = LockedFile(storage, TreePath(path))
    return {lock.token for lock in webdav_locks.read([file]).get(file, ())}


def list_tokens(locks: list[Lock]) -> list[str]:
    return sorted(lock.token for lock in locks)


@pytest.mark.parametrize("path", ["/a/b", LONG, "/"])
def test_lock_is_found_at_its_file_and_below_folders_above(path: str) -> None:
    lock, below = make_lock(path, token="lock"), make_lock(f"{path}/x/y".replace("//", "/"), token="below")
    webdav_locks.add(lock)
    webdav_locks.add(below)
    folder = LockedFile(DISK, TreePath(path))
    assert find(path) == {"lock"} and find(f"{path}x") == find(path, "files#2") == set()
    assert list_tokens(webdav_locks.find_below(folder)) == ["below"] and webdav_locks.find_entries(folder) == []
    assert list_tokens(webdav_locks.find_entries(LockedFile(DISK, TreePath(path) / "x"))) == ["below"]
    if path != "/":
        parent = LockedFile(DISK, TreePath(path).parent)
        assert list_tokens(webdav_locks.find_below(parent)) == ["below", "lock"]
        assert list_tokens(webdav_locks.find_entries(parent)) == ["lock"]
    assert webdav_locks.release(lock) and not webdav_locks.release(lock)
    assert find(path) == set() and list_tokens(webdav_locks.find_all()) == ["below"]


def test_exclusive_lock_excludes_every_other_on_its_files() -> None:
    webdav_locks.add(make_lock("/a", "/b", token="both"))
    for path in ("/a", "/b"):
        with pytest.raises(LockConflict) as caught:
            webdav_locks.add(make_lock(path, token="other", exclusive=False))
        assert caught.value.other.token == "both"
    assert [lock.token for lock in webdav_locks.find_all()] == ["both"]
    webdav_locks.release(make_lock("/a", "/b", token="both"))
    webdav_locks.add(make_lock("/a", token="first", exclusive=False))
    webdav_locks.add(make_lock("/a", token="second", exclusive=False))
    assert find("/a") == {"first", "second"}


def test_lock_beyond_quota_of_user_is_refused_until_one_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """A6 of issue 25: a user may hold 100 locks."""
    for number in range(99):
        webdav_locks.add(make_lock(f"/{number}", token=f"{number}"))
    webdav_locks.add(make_lock("/short", token="short", seconds=600))
    with pytest.raises(LockQuotaExceeded):
        webdav_locks.add(make_lock("/more", token="more"))
    assert find("/more") == set()
    webdav_locks.add(make_lock("/more", token="other", user_id=8))
    monkeypatch.setattr(webdav_locks, "time", SimpleNamespace(time=lambda: time.time() + 600))
    webdav_locks.add(make_lock("/again", token="again"))
    with pytest.raises(LockQuotaExceeded):
        webdav_locks.add(make_lock("/more still", token="more still"))
    webdav_locks.release(make_lock("/0", token="0"))
    webdav_locks.add(make_lock("/more still", token="more still"))


def test_shared_locks_beyond_bound_of_file_are_refused() -> None:
    for number in range(webdav_locks.MAX_LOCKS_PER_FILE):
        webdav_locks.add(make_lock("/a", token=f"{number}", exclusive=False, user_id=number))
    with pytest.raises(LockQuotaExceeded):
        webdav_locks.add(make_lock("/a", token="more", exclusive=False))


def test_expired_lock_binds_nobody_and_is_swept() -> None:
    webdav_locks.add(make_lock("/a", token="old", seconds=-5))
    assert find("/a") == set() and webdav_locks.find_all() == []
    delete_expired(webdav_locks.LockRecord)
    assert webdav_locks.LockRecord.count() == 0
    lock = make_lock("/a", token="new")
    webdav_locks.add(lock)
    later = time.time() + 500
    assert webdav_locks.refresh(lock, later) and webdav_locks.find_all()[0].expires == later
    assert webdav_locks.refresh(lock, time.time() - 5) and find("/a") == set()
    assert not webdav_locks.refresh(make_lock("/b"), time.time())


def test_of_many_exclusive_locks_at_once_one_is_stored() -> None:
    def add(number: int) -> bool:
        try:
            webdav_locks.add(replace(make_lock("/a", token=f"{number}"), user_id=number))
        except (LockConflict, webdav_locks.RecordConflict):
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(add, range(6))) == 1
    assert len(find("/a")) == 1
