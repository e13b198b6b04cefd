"""The records of open sessions: their last use, what they outlive, and their bounds."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from mangrove.core.problems import ResourceNotFound
from mangrove.identity import accounts, sessions, tokens
from mangrove.identity.rights import NORMAL
from mangrove.records import open_sessions, users
from mangrove.records.store.base import count_calls
from mangrove.records.users import User

pytestmark = pytest.mark.usefixtures("records")


@pytest.fixture
def ann() -> User:
    return users.create(username="ann", password_hash="x", role=NORMAL, pwd_ts=5)


def open_session(user: User, device: str = "curl/8", address: str = "192.0.2.1") -> str:
    token = tokens.issue(user)
    sessions.record(token, device, address)
    return token


def make_older(token: str, seconds: int) -> str:
    """Move the last use of the session into the past, in its record and in this process. Return its id."""
    verified = tokens.VERIFIED_TOKENS.open().get(token) or tokens.find_session(token)
    assert verified is not None
    verified.used -= seconds
    tokens.VERIFIED_TOKENS.open().put(token, verified)
    session = open_sessions.find(verified.jti)
    assert session is not None
    open_sessions.add(replace(session, last_used=session.last_used - seconds))
    return verified.jti


def test_use_is_recorded_once_in_the_interval(ann: User) -> None:
    token = open_session(ann)
    assert tokens.find_due_use(token) is None
    id = make_older(token, tokens.USE_INTERVAL_SECONDS)
    assert tokens.find_due_use(token) == id
    assert tokens.find_due_use(token) is None
    sessions.note_use(id, "192.0.2.9")
    session = open_sessions.find(id)
    assert session is not None
    assert session.address == "192.0.2.9"
    assert time.time() - session.last_used < tokens.USE_INTERVAL_SECONDS


def test_use_of_a_session_without_a_record_makes_none(ann: User) -> None:
    sessions.note_use("of an earlier version", "192.0.2.1")
    assert open_sessions.find("of an earlier version") is None


def test_list_has_the_last_used_first(ann: User) -> None:
    ids = [make_older(open_session(ann, str(seconds)), seconds) for seconds in (100, 300, 200)]
    assert [session.id for session, _ in sessions.list_of(ann)] == [ids[0], ids[2], ids[1]]
    assert [session.device for session, _ in sessions.list_all(users.find)] == ["100", "200", "300"]


def test_list_ends_at_its_bound(ann: User) -> None:
    for number in range(5):
        make_older(open_session(ann, str(number)), 100 * number)
    assert [session.device for session in open_sessions.find_by_user("ann", 3)] == ["0", "1", "2"]
    assert [session.device for session in open_sessions.find_last_used(3)] == ["0", "1", "2"]


def test_kept_session_stays_in_the_list_and_others_do_not(ann: User) -> None:
    first, _ = open_session(ann, "first"), open_session(ann, "other")
    accounts.end_sessions(ann.id, first)
    assert [session.device for session, _ in sessions.list_of(accounts.get(ann.id))] == ["first"]


def test_session_of_a_renamed_or_deleted_user_is_not_listed(ann: User) -> None:
    open_session(ann)
    users.change(ann.id, username="anna")
    assert sessions.list_all(users.find) == []
    assert sessions.list_of(accounts.get(ann.id)) == []


def test_expired_session_is_not_listed(ann: User) -> None:
    id = make_older(open_session(ann), 0)
    session = open_sessions.find(id)
    assert session is not None
    open_sessions.add(replace(session, expires=int(time.time()) - 1))
    assert sessions.list_of(ann) == []


def test_session_of_another_user_cannot_be_ended(ann: User) -> None:
    other = users.create(username="bob", password_hash="x", role=NORMAL, pwd_ts=5)
    id = make_older(open_session(ann), 0)
    with pytest.raises(ResourceNotFound):
        sessions.end_own(other, id)
    assert open_sessions.find(id) is not None


def test_end_of_a_session_needs_one_call_besides_its_look_up(ann: User) -> None:
    id = make_older(open_session(ann), 0)
    before = count_calls()
    sessions.end(id)
    assert count_calls() == before + 2
    assert open_sessions.find(id) is None


def test_device_is_printable_and_bounded(ann: User) -> None:
    open_session(ann, "a\x1b[31mb\n" + "c" * 1000)
    ((session, _),) = sessions.list_of(ann)
    assert session.device == ("a[31mb" + "c" * 1000)[: sessions.MAX_DEVICE_LENGTH]
