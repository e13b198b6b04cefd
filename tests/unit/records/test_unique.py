"""Unique names on the real engine: none is lost, none is left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.core.problems import BadRequest, Problem
from mangrove.records import metas
from mangrove.records.accounts import users
from mangrove.records.store import unique
from mangrove.records.store.base import RecordConflict, transaction, translate_errors

pytestmark = pytest.mark.usefixtures("records")


def claim(text: str, owner: int) -> None:
    with translate_errors(), transaction(unique.Claim) as write:
        unique.claim(write, unique.make_name("kind", text), owner)


def test_a_name_is_claimed_once_until_it_is_released() -> None:
    claim("a", 1)
    claim("b", 2)
    with pytest.raises(RecordConflict):
        claim("a", 3)
    with translate_errors(), transaction(unique.Claim) as write:
        unique.release(write, unique.make_name("kind", "a"))
    claim("a", 3)
    assert {one.name: int(one.owner) for one in unique.Claim.scan()} == {"kind#a": 3, "kind#b": 2}


def test_a_key_has_a_bound_in_bytes() -> None:
    room = unique.MAX_KEY_BYTES - len("kind#")
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
    assert {claim.name for claim in unique.Claim.scan()} == names


def test_new_names_given_at_once_to_one_record_all_count() -> None:
    user = users.create(username="u", password_hash="x")
    for number in range(6):
        names = [f"{number}-{one}" for one in range(3)]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda name: users.change(user.id, username=name), names))
        assert users.get(user.id).username in names
    assert [claim.owner for claim in unique.Claim.scan()] == [user.id] * 3


def test_a_name_that_no_key_can_hold_is_refused_as_too_long() -> None:
    with pytest.raises(Problem, match="too long"):
        metas.create(path="/" + "a" * 2048)
    assert metas.create(path="/" + "a" * 2000).id
