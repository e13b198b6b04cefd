"""Tokens that were logged out before their end."""

from __future__ import annotations

import time

import pytest

from mangrove.records import sessions

pytestmark = pytest.mark.usefixtures("records")


def test_a_token_is_revoked_until_it_would_have_ended_by_itself() -> None:
    now = int(time.time())
    sessions.revoke("lasting", now + 60)
    sessions.revoke("ended", now - 1)
    assert sessions.is_revoked("lasting")
    assert not sessions.is_revoked("ended")
    assert not sessions.is_revoked("another")


def test_to_revoke_twice_is_to_revoke() -> None:
    end = int(time.time()) + 60
    sessions.revoke("one", end)
    sessions.revoke("one", end)
    assert sessions.is_revoked("one")
    assert [record.jti for record in sessions.SessionRecord.scan()] == ["one"]
