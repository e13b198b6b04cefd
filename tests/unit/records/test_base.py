"""One connection for all tables, calls that are counted, failures in the words of `mangrove.core.problems`."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
from pynamodb.exceptions import PutError

from mangrove.core import runtime
from mangrove.core.problems import RecordsUnavailable
from mangrove.core.runtime import Runtime
from mangrove.records import metas, users
from mangrove.records.metas import PathRuleRecord
from mangrove.records.store import base
from mangrove.records.store.base import (
    Connections,
    RecordConflict,
    count_calls,
    get_connection,
    retry_on_conflict,
    translate_errors,
)
from mangrove.records.users import UserRecord


def test_all_tables_share_one_connection_from_any_thread(records: None) -> None:
    with runtime.use(Runtime()), ThreadPoolExecutor(8) as pool:
        models = [UserRecord, PathRuleRecord] * 8
        connections = list(pool.map(get_connection, models))
        assert all(connection is connections[0] for connection in connections)
        assert users.create(username="a", password_hash="x") in users.all()
        assert metas.all() == []


def test_a_new_runtime_has_a_connection_of_its_own(records: None) -> None:
    users.create(username="a", password_hash="x")
    before = get_connection(UserRecord)
    with runtime.use(Runtime()), patch.dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB="http://127.0.0.1:9"):
        assert get_connection(UserRecord) is not before
        with pytest.raises(RecordsUnavailable, match="the records engine does not answer"):
            users.all()
    assert get_connection(UserRecord) is before
    assert [user.username for user in users.all()] == ["a"]


def test_find_returns_none_for_a_record_that_does_not_exist(records: None) -> None:
    user = users.create(username="a", password_hash="x")
    before = count_calls()
    assert UserRecord.find(user.id).username == "a"
    assert UserRecord.find(user.id + 1) is None
    assert count_calls() == before + 2


def test_every_call_is_counted_whether_it_succeeds_or_not(records: None) -> None:
    before = count_calls()
    users.all()
    assert count_calls() == before + 1
    with pytest.raises(RecordConflict), translate_errors():
        UserRecord(1, username="a", password_hash="x").save(condition=UserRecord.id.exists())
    assert count_calls() == before + 2
    with runtime.use(Runtime()):
        assert count_calls() == 0


def test_calls_of_many_threads_are_all_counted() -> None:
    connections = Connections()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: connections.count_call(), range(2000)))
    assert connections.calls == 2000


def test_a_transaction_says_which_of_its_conditions_failed(records: None) -> None:
    with translate_errors():
        UserRecord(1, username="a", password_hash="x").save()
    with pytest.raises(RecordConflict) as caught, translate_errors(), base.transaction(UserRecord) as write:
        for number in (1, 2):
            record = UserRecord(number, username="b", password_hash="x")
            write.save(record, condition=UserRecord.id.does_not_exist())
    assert list(caught.value.failed) == [True, False]


def test_other_library_failure_means_engine_does_not_answer() -> None:
    with pytest.raises(RecordsUnavailable), translate_errors():
        raise PutError("whatever")
    with pytest.raises(ValueError, match="ours"), translate_errors():
        raise ValueError("ours")


@pytest.mark.parametrize(("conflicts", "calls", "ends"), [(0, 1, True), (2, 3, True), (99, base.MAX_ATTEMPTS, False)])
def test_a_change_that_meets_another_is_tried_again_and_not_for_ever(conflicts: int, calls: int, ends: bool) -> None:
    tries: list[str] = []

    @retry_on_conflict
    def change(name: str) -> str:
        tries.append(name)
        if len(tries) <= conflicts:
            raise RecordConflict
        return name

    if ends:
        assert change("x") == "x"
    else:
        with pytest.raises(RecordConflict, match="record changed meanwhile, try again"):
            change("x")
    assert tries == ["x"] * calls


@pytest.mark.parametrize(
    ("tables", "name"),
    [("mangrove", "mangrove-users"), ("metas=M-1,users=stack-Users-1A", "stack-Users-1A")],
)
def test_a_table_is_named_after_a_prefix_or_as_the_deployment_says(tables: str, name: str) -> None:
    with runtime.use(Runtime()), patch.dict(os.environ, MANGROVE_TABLES=tables):
        table = base.table_name("users")
        assert (table, table.kind) == (name, "users")


def test_a_table_that_the_deployment_does_not_name_is_told() -> None:
    with runtime.use(Runtime()), patch.dict(os.environ, MANGROVE_TABLES="users=u"):
        with pytest.raises(ValueError, match="MANGROVE_TABLES names no table of metas"):
            base.table_name("metas")
