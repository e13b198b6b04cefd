"""Repositories on the real engine: names are unique under a race, changes do not get lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.core.problems import BadRequest, Problem, RecordNotFound
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records import metas, users
from mangrove.records.credentials import ssh_keys
from mangrove.records.store import repository, versions
from mangrove.records.store.base import NameTaken, RecordConflict, transaction, translate_errors

pytestmark = pytest.mark.usefixtures("records")


def test_of_many_creates_with_one_name_one_wins() -> None:
    def create(_: int) -> bool:
        try:
            users.create(username="same", password_hash="x")
        except NameTaken as problem:
            assert problem.message == users.TAKEN
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(16))) == 1
    assert [user.username for user in users.all()] == ["same"]


def test_a_name_moves_with_its_record_and_is_free_after_delete() -> None:
    first = users.create(username="a", password_hash="x")
    users.change(first.id, username="b")
    second = users.create(username="a", password_hash="x")
    with pytest.raises(Problem, match="is taken"):
        users.change(second.id, username="b")
    users.delete(first.id)
    assert users.change(second.id, username="b").username == "b"
    with pytest.raises(Problem, match="record not found"):
        users.get(first.id)


def test_concurrent_changes_of_one_record_all_count() -> None:
    user = users.create(username="u", password_hash="x")
    fields = [{"sso_id": "s"}, {"permission": 7}, {"base_path": "/b"}, {"role": 0}]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda change: users.change(user.id, **change), fields))
    after = users.get(user.id)
    assert (after.sso_id, after.permission, after.base_path) == ("s", 7, "/b")


def test_a_name_that_is_taken_is_a_failure_of_its_own() -> None:
    metas.create(path="/a")
    other = metas.create(path="/b")
    for work in (lambda: metas.create(path="/a"), lambda: metas.change(other.id, path="/a")):
        with pytest.raises(NameTaken) as caught:
            work()
        assert caught.value.message == metas.TAKEN


def test_configuration_writes_raise_version_only_if_successful() -> None:
    numbers = [versions.get_version()]
    user = users.create(username="a", password_hash="x")
    numbers.append(versions.get_version())
    users.change(user.id, permission=1)
    numbers.append(versions.get_version())
    with pytest.raises(NameTaken):
        users.create(username="a", password_hash="x")
    with pytest.raises(RecordNotFound):
        users.change(user.id + 100, permission=1)
    with pytest.raises(RecordNotFound):
        users.delete(user.id + 100)
    users.delete(user.id)
    numbers.append(versions.get_version())
    assert numbers == [0, 1, 2, 3]
    assert change_counters().read(Topic.CONFIGURATION) == 3


def test_the_version_is_that_of_the_record_when_it_rises() -> None:
    """A process that reads the new version finds the new record."""
    user = users.create(username="a", password_hash="x")
    seen: list[tuple[int, int]] = []
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [users.change(user.id, permission=number) for number in range(1, 20)])
        while not writing.done():
            version = versions.get_version()
            seen.append((version, users.get(user.id).permission))
    assert all(permission >= version - 1 for version, permission in seen)


def test_new_or_removed_key_changes_its_user_but_use_does_not() -> None:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    fields = {"user_id": 1, "title": "t", "text": "x", "fingerprint": "f", "added": now, "last_used": now}
    key = ssh_keys.create(name="1#t", **fields)
    assert versions.get_version() == 1
    ssh_keys.change(key.id, last_used=now)
    assert versions.get_version() == 1
    ssh_keys.delete(key.id)
    assert versions.get_version() == 2


pytestmark = pytest.mark.usefixtures("records")


def claim(text: str, owner: int) -> None:
    with translate_errors(), transaction(repository.Claim) as write:
        repository.claim(write, repository.make_name("kind", text), owner)


def test_a_name_is_claimed_once_until_it_is_released() -> None:
    claim("a", 1)
    claim("b", 2)
    with pytest.raises(RecordConflict):
        claim("a", 3)
    with translate_errors(), transaction(repository.Claim) as write:
        repository.release(write, repository.make_name("kind", "a"))
    claim("a", 3)
    assert {row.name: int(row.owner) for row in repository.Claim.scan()} == {"kind#a": 3, "kind#b": 2}


def test_a_key_has_a_bound_in_bytes() -> None:
    room = repository.MAX_NAME_KEY_BYTES - len("kind#")
    claim("é" * (room // 2), 1)
    with pytest.raises(BadRequest, match="the name or path is too long"):
        claim("é" * (room // 2 + 1), 2)


def test_a_delete_while_the_name_changes_leaves_no_name_taken() -> None:
    for number in range(15):
        user = users.create(username=f"u{number}", password_hash="x")
        with ThreadPoolExecutor(2) as pool:
            renamed = pool.submit(users.change, user.id, username=f"v{number}")
            for done in (renamed, pool.submit(users.delete, user.id)):
                if done.exception() is not None:
                    assert str(done.exception()) in ("record not found", users.TAKEN)
    names = {name for user in users.all() for name in (f"users#{user.username}", *users.make_looks(user.username))}
    assert {claim.name for claim in repository.Claim.scan()} == names


def test_new_names_given_at_once_to_one_record_all_count() -> None:
    user = users.create(username="u", password_hash="x")
    for number in range(6):
        names = [f"{number}-{index}" for index in range(3)]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda name: users.change(user.id, username=name), names))
        assert users.get(user.id).username in names
    assert [claim.owner for claim in repository.Claim.scan()] == [user.id] * 3


def test_a_name_that_no_key_can_hold_is_refused_as_too_long() -> None:
    with pytest.raises(Problem, match="too long"):
        metas.create(path="/" + "a" * 2048)
    assert metas.create(path="/" + "a" * 2000).id
