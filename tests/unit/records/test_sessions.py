"""Tokens that were logged out before their end."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pynamodb.connection import Connection

from mangrove.records import sessions, settings
from mangrove.records.store.base import count_calls

pytestmark = pytest.mark.usefixtures("records")


def test_a_token_is_revoked_until_it_would_have_ended_by_itself() -> None:
    now = int(time.time())
    sessions.revoke("lasting", now + 60)
    sessions.revoke("ended", now - 1)
    assert sessions.is_revoked("lasting")
    assert not sessions.is_revoked("ended")
    assert not sessions.is_revoked("another")


def test_configuration_version_and_revocation_are_read_in_one_call() -> None:
    assert sessions.read_with_version("one") == (0, False)
    settings.save({"a": "b"})
    sessions.revoke("one", int(time.time()) + 60)
    sessions.revoke("ended", int(time.time()) - 1)
    before = count_calls()
    assert sessions.read_with_version("one") == (1, True)
    assert count_calls() == before + 1
    assert sessions.read_with_version("ended") == sessions.read_with_version("another") == (1, False)


def test_what_an_engine_with_too_much_to_do_leaves_out_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.save({"a": "b"})
    sessions.revoke("one", int(time.time()) + 60)
    dispatch = Connection.dispatch

    def leave_out(self: Connection, operation: str, options: dict[str, Any]) -> Any:
        answer = dispatch(self, operation, options)
        if operation == "BatchGetItem":
            return {"Responses": {}, "UnprocessedKeys": options["RequestItems"]}
        return answer

    monkeypatch.setattr(Connection, "dispatch", leave_out)
    assert sessions.read_with_version("one") == (1, True)
    assert sessions.read_with_version("another") == (1, False)


def test_to_revoke_twice_is_to_revoke() -> None:
    end = int(time.time()) + 60
    sessions.revoke("one", end)
    sessions.revoke("one", end)
    assert sessions.is_revoked("one")
    assert [record.jti for record in sessions.SessionRecord.scan()] == ["one"]
