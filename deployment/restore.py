"""Copy the rows of restored tables into the tables of a stack: `python -m deployment.restore STACK SUFFIX [REGION]`.

DynamoDB restores a table to a point in time as another table. Restore each table NAME of the stack as NAME-SUFFIX, then
run this command: it compares the tables, and makes each table of the stack equal to its restored one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import botocore.session
from botocore.exceptions import ClientError

from mangrove.standalone import template

MAX_ROWS_PER_WRITE = 25  # the limit of DynamoDB
MAX_WRITE_ATTEMPTS = 8  # of rows that DynamoDB leaves out
EPHEMERAL = frozenset({"Sessions", "LoginChallenges", "WebdavLocks", "Uploads", "IndexChanges"})
"""Tables that are not restored: their rows are of the moment, and the index is built anew."""

Row = dict[str, Any]


class RestoreRefused(Exception):
    """The tables cannot be restored; nothing was written."""


@dataclass(frozen=True, slots=True)
class TablePair:
    """A table of the stack and its restored copy."""

    name: str
    restored: str
    keys: tuple[str, ...]
    """The attributes of the primary key."""


@dataclass(frozen=True, slots=True)
class RestoreCount:
    """The number of rows of a table that were written, and that were deleted because the restored table lacks them."""

    written: int
    deleted: int


def find_pairs(client: Any, tables: Mapping[str, str], suffix: str) -> list[TablePair]:
    """Return the tables of a stack that have a restored copy. `tables`: the names by their logical ids.

    Raise RestoreRefused if none has a copy, or if a copy is not active or has another key.
    """
    pairs = []
    for logical_id, name in sorted(tables.items()):
        if logical_id in EPHEMERAL:
            continue
        restored = f"{name}-{suffix}"
        try:
            copy = client.describe_table(TableName=restored)["Table"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                continue
            raise
        present = client.describe_table(TableName=name)["Table"]
        if copy["TableStatus"] != "ACTIVE":
            raise RestoreRefused(f"{restored} is {copy['TableStatus']}: wait until it is ACTIVE")
        if copy["KeySchema"] != present["KeySchema"]:
            raise RestoreRefused(f"{restored} has another key than {name}")
        pairs.append(TablePair(name, restored, tuple(key["AttributeName"] for key in present["KeySchema"])))
    if not pairs:
        raise RestoreRefused(f"no table of the stack has a copy whose name ends in -{suffix}")
    return pairs


def restore(client: Any, pair: TablePair) -> RestoreCount:
    """Make a table equal to its restored copy. Rows that are equal already are not written.

    The command can be repeated after a failure.
    """
    written = deleted = 0
    for page in _scan(client, pair.restored):
        present = {_get_key(pair, row): row for row in _read(client, pair.name, pair, page)}
        changed = [row for row in page if present.get(_get_key(pair, row)) != row]
        _write(client, pair.name, [{"PutRequest": {"Item": row}} for row in changed])
        written += len(changed)
    for page in _scan(client, pair.name):
        restored_keys = {_get_key(pair, row) for row in _read(client, pair.restored, pair, page)}
        surplus = [row for row in page if _get_key(pair, row) not in restored_keys]
        keys = [{name: row[name] for name in pair.keys} for row in surplus]
        _write(client, pair.name, [{"DeleteRequest": {"Key": key}} for key in keys])
        deleted += len(surplus)
    return RestoreCount(written, deleted)


def _get_key(pair: TablePair, row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in pair.keys)


def _scan(client: Any, table: str) -> Iterator[list[Row]]:
    """Yield the rows of a table in pages."""
    arguments: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    while True:
        answer = client.scan(**arguments)
        yield answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        arguments["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _read(client: Any, table: str, pair: TablePair, rows: list[Row]) -> Iterator[Row]:
    """Yield the rows of a table with the keys of `rows`."""
    for start in range(0, len(rows), MAX_ROWS_PER_WRITE):
        keys = [{name: row[name] for name in pair.keys} for row in rows[start : start + MAX_ROWS_PER_WRITE]]
        request: dict[str, Any] = {table: {"Keys": keys, "ConsistentRead": True}}
        while request:
            answer = client.batch_get_item(RequestItems=request)
            yield from answer["Responses"].get(table, ())
            request = answer.get("UnprocessedKeys", {})


def _write(client: Any, table: str, requests: list[dict[str, Any]]) -> None:
    """Write rows. Raise RestoreRefused if DynamoDB leaves some out repeatedly."""
    for start in range(0, len(requests), MAX_ROWS_PER_WRITE):
        batch = {table: requests[start : start + MAX_ROWS_PER_WRITE]}
        for _ in range(MAX_WRITE_ATTEMPTS):
            batch = client.batch_write_item(RequestItems=batch).get("UnprocessedItems", {})
            if not batch:
                break
        else:
            raise RestoreRefused(f"{table}: DynamoDB does not take all rows now; run the command again")


def find_tables(session: botocore.session.Session, stack: str, region: str | None) -> dict[str, str]:
    """Return the names of the tables of a stack by their logical ids."""
    client = session.create_client("cloudformation", region)
    pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
    known = {name for name, _ in template.iter_resources("AWS::DynamoDB::Table")}
    resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
    names = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
    return {logical_id: name for logical_id, name in names.items() if logical_id in known}


def main(stack: str, suffix: str, region: str | None = None) -> int:
    """Restore all tables that have a copy, and print the number of rows. Return 1 if that is refused."""
    session = botocore.session.get_session()
    client = session.create_client("dynamodb", region)
    try:
        for pair in find_pairs(client, find_tables(session, stack, region), suffix):
            count = restore(client, pair)
            print(f"{pair.name}: {count.written} rows written, {count.deleted} deleted")
    except RestoreRefused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
