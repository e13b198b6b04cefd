"""Calls with many rows in the engine's format, which are not made into models."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import Record, get_connection, translate_errors

MAX_REQUESTS_PER_CALL = 25  # the limit of DynamoDB
MAX_ATTEMPTS = 6  # of calls of which the engine leaves out a part
Row = dict[str, dict[str, Any]]


def write_rows(model: type[Record], requests: Iterable[dict[str, Any]]) -> None:
    """Put and delete rows of a table, in calls of MAX_REQUESTS_PER_CALL. Raise RecordsUnavailable."""
    remaining = iter(requests)
    while batch := list(islice(remaining, MAX_REQUESTS_PER_CALL)):
        _write_batch(model, batch)


def _write_batch(model: type[Record], requests: list[dict[str, Any]]) -> None:
    table = model.Meta.table_name
    for attempt in range(MAX_ATTEMPTS):
        pause(attempt)
        with translate_errors():
            answer = get_connection(model).client.batch_write_item(RequestItems={table: requests})
        requests = answer.get("UnprocessedItems", {}).get(table, [])
        if not requests:
            return
    raise RecordsUnavailable


def pause(attempt: int) -> None:
    """Wait before a further attempt."""
    if attempt:
        time.sleep(0.02 * 2**attempt)


def query_rows(model: type[Record], limit: int | None, arguments: dict[str, Any]) -> list[Row]:
    """Return at most `limit` rows that a query finds, with the arguments of Query but for the table."""
    arguments = {**arguments, "TableName": model.Meta.table_name}
    rows: list[Row] = []
    while limit is None or len(rows) < limit:
        if limit is not None:
            arguments["Limit"] = limit - len(rows)
        with translate_errors():
            answer = get_connection(model).client.query(**arguments)
        rows += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            break
        arguments["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    return rows
