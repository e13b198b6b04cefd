"""Refusals of DynamoDB and Secrets Manager become a problem in words, with the cause in the log, and end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import Problem, RecordsThrottled, RecordsUnavailable
from mangrove.core.runtime import Runtime
from mangrove.records import sessions, settings, users
from mangrove.records.store import base, encryption, keys, versions
from mangrove.records.store.base import TableMeta
from mangrove.records.store.keys import Key, Keyring, keyring
from mangrove.records.tasks import batches as task_batches
from tests.servers.refusing import refusing_server


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The records of the log."""
    said: list[Any] = []
    for module in (base, encryption, keys):
        monkeypatch.setattr(module, "log_warning", lambda message, **facts: said.append((message, facts)))
    return said


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "AccessDeniedException"])
def test_a_table_that_is_missing_or_closed_is_named_in_the_log(
    engine: str, said: list[Any], monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    with refusing_server(code) as server, runtime.use(Runtime()):
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", server.url)
        with pytest.raises(RecordsUnavailable, match="the records engine does not answer"):
            users.find("ann")
    assert server.refusals == 1, "no retry helps"
    ((message, facts),) = said
    assert (message, facts["code"]) == ("records engine refuses the service", code)


def test_throttling_by_dynamodb_is_tried_again_and_not_for_ever(
    engine: str, said: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableMeta, "max_retry_attempts", 2)
    with refusing_server("ProvisionedThroughputExceededException") as server, runtime.use(Runtime()):
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", server.url)
        with pytest.raises(RecordsUnavailable):
            versions.get_version()
        assert server.refusals == 3
        with pytest.raises(RecordsUnavailable):
            settings.save({"site_title": "x"})
        with pytest.raises(RecordsUnavailable):
            task_batches.read(["x"])
        with pytest.raises(RecordsThrottled):
            sessions.read_with_version("x")
    assert said == []


def test_a_secret_that_cannot_be_read_is_a_problem_in_words(
    said: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with refusing_server("AccessDeniedException") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", server.url)
        for changes, message in (
            ({"key_file": None, "token_key_secret": "the key"}, "the token key cannot be read"),
            ({"key_file": tmp_path / "none"}, "the master key cannot be read"),
        ):
            runtime.put(Config, replace(Config(), **changes))
            runtime.put(Keyring, Keyring())
            with pytest.raises(Problem) as caught:
                keyring().get(Key.TOKEN)
            assert caught.value.message == message == said[-1][0]
    assert len(said) == 2
    assert said[0][1]["secret"] == "the key" and "AccessDeniedException" in said[0][1]["reason"]
