"""Tables that were restored to a point in time, copied into the tables of a stack on the bundled engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deployment import restore
from deployment.restore import RestoreCount, RestoreRefused
from mangrove.standalone import template
from tests import servers
from tests.support.engine import engine

STACK, SUFFIX = "stack", "restored"
ROW_COUNT = 60  # more than one write takes


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with engine() as endpoint:
        yield servers.make_client("dynamodb", endpoint)


@pytest.fixture
def tables(client: Any) -> dict[str, str]:
    """The tables of a stack with some rows, and restored copies of two of them."""
    kinds = template.read_kinds()
    for name in client.list_tables()["TableNames"]:
        client.delete_table(TableName=name)
    for table in template.read_tables(STACK):
        client.create_table(**table)
        if table["TableName"].endswith(("-users", "-webdav_locks", "-properties", "-sessions")):
            client.create_table(**table | {"TableName": f"{table['TableName']}-{SUFFIX}"})
    return {logical_id: f"{STACK}-{kind}" for logical_id, kind in kinds.items()}


def make_row(number: int, text: str = "") -> dict[str, Any]:
    return {"id": {"N": str(number)}, "username": {"S": text or f"user {number}"}}


def fill(client: Any, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        client.put_item(TableName=table, Item=row)


def read(client: Any, table: str) -> list[dict[str, Any]]:
    return sorted(client.scan(TableName=table)["Items"], key=lambda row: int(row["id"]["N"]))


def test_table_becomes_equal_to_its_restored_copy(client: Any, tables: dict[str, str]) -> None:
    users, restored = f"{STACK}-users", f"{STACK}-users-{SUFFIX}"
    rows = [make_row(number) for number in range(ROW_COUNT)]
    fill(client, restored, rows)
    fill(client, users, [*rows[:20], make_row(30, "changed since"), make_row(1000, "made since")])
    pairs = {pair.name: pair for pair in restore.find_pairs(client, tables, SUFFIX)}
    assert restore.restore(client, pairs[users]) == RestoreCount(written=ROW_COUNT - 20, deleted=1)
    assert read(client, users) == rows
    assert restore.restore(client, pairs[users]) == RestoreCount(0, 0)


def test_tables_of_the_moment_and_those_without_a_copy_stay(client: Any, tables: dict[str, str]) -> None:
    pairs = restore.find_pairs(client, tables, SUFFIX)
    assert [pair.name for pair in pairs] == [f"{STACK}-properties", f"{STACK}-users"]


def test_restore_without_copies_or_with_other_keys_is_refused(client: Any, tables: dict[str, str]) -> None:
    with pytest.raises(RestoreRefused, match="no table of the stack has a copy whose name ends in -other"):
        restore.find_pairs(client, tables, "other")
    client.create_table(
        TableName=f"{STACK}-settings-{SUFFIX}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "x", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "x", "KeyType": "HASH"}],
    )
    with pytest.raises(RestoreRefused, match="has another key"):
        restore.find_pairs(client, tables, SUFFIX)


def test_ephemeral_tables_are_tables_of_the_template() -> None:
    tables = {name for name, _ in template.iter_resources("AWS::DynamoDB::Table")}
    assert tables >= restore.EPHEMERAL
