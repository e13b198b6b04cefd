"""A write whose answer is lost: the engine ends after the write, and a success is not reported as a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from mangrove.core import runtime
from mangrove.core.problems import RecordNotFound
from mangrove.core.runtime import Runtime
from mangrove.records import metas, settings, users
from mangrove.records.store.base import NameTaken
from mangrove.records.store.direct_calls import DirectCalls
from mangrove.standalone import upgrade
from mangrove.standalone.data_directory import DataDirectory
from mangrove.standalone.engine import Engine

SEND = DirectCalls.send


class FailingEngine:
    """An engine of its own that can be killed when it has acted, before its answer arrives."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.lost = 0
        self._operation = ""

    def lose_answer(self, operation: str) -> None:
        """Lose the next answer to an operation, and all that the engine remembers of it beside the records."""
        self._operation = operation

    def lose(self, calls: DirectCalls, operation: str, body: bytes) -> dict[str, Any]:
        """Send a call. Kill the engine and raise a failure in place of the answer that is to be lost."""
        answer = SEND(calls, operation, body)
        if operation != self._operation:
            return answer
        self._operation = ""
        child = self.engine._child
        assert child is not None
        child.kill()
        child.wait()
        self.lost += 1
        raise EndpointConnectionError(endpoint_url="lost")


@pytest.fixture
def failing(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingEngine]:
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    own = Engine(tmp_path)
    own.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", own.endpoint.url)
        monkeypatch.setenv("MANGROVE_RECORDS_SOCKET", own.endpoint.socket_path)
        with runtime.use(Runtime()):
            upgrade.open_tables(DataDirectory(tmp_path), own.endpoint)
            failing = FailingEngine(own)
            monkeypatch.setattr(DirectCalls, "send", lambda *call: failing.lose(*call))
            yield failing
    finally:
        own.close()


def test_create_with_a_lost_answer_succeeds_once(failing: FailingEngine) -> None:
    failing.lose_answer("TransactWriteItems")
    ann = users.create(username="ann", password_hash="x")
    assert (failing.lost, users.all()) == (1, [ann])
    with pytest.raises(NameTaken):
        users.create(username="ann", password_hash="x")


def test_change_of_a_name_with_a_lost_answer_succeeds(failing: FailingEngine) -> None:
    ann = users.create(username="ann", password_hash="x")
    failing.lose_answer("TransactWriteItems")
    anna = users.change(ann.id, username="anna", permission=8)
    assert (failing.lost, anna.username, anna.permission) == (1, "anna", 8)
    assert (users.all(), users.find("ann")) == ([anna], None)
    assert users.create(username="ann", password_hash="x").id != ann.id, "the old name is free"


def test_change_of_a_field_with_a_lost_answer_succeeds(failing: FailingEngine) -> None:
    rule = metas.create(path="/a", password="p")
    failing.lose_answer("TransactWriteItems")
    assert metas.change(rule.id, password="q").password == "q"
    assert (failing.lost, metas.get(rule.id).password) == (1, "q")


def test_delete_with_a_lost_answer_succeeds(failing: FailingEngine) -> None:
    ann = users.create(username="ann", password_hash="x")
    failing.lose_answer("TransactWriteItems")
    users.delete(ann.id)
    assert (failing.lost, users.all()) == (1, [])
    with pytest.raises(RecordNotFound):
        users.delete(ann.id)


def test_saved_settings_with_a_lost_answer_are_saved(failing: FailingEngine) -> None:
    failing.lose_answer("TransactWriteItems")
    settings.save({"site_title": "x"})
    assert (failing.lost, settings.all()) == (1, {"site_title": "x"})


def test_name_of_another_rule_is_still_taken(failing: FailingEngine) -> None:
    metas.create(path="/a")
    with pytest.raises(NameTaken):
        metas.create(path="/a")
