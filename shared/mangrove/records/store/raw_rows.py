"""Calls with many rows in the engine's format, which are not made into models.

The own engine flushes each row of a BatchWriteItem to the disk by itself, but the rows of a transaction together. In
DynamoDB there is no flush to save, and a transaction costs twice as much.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from mangrove.core.platform import platform
from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import Record, get_connection, translate_errors

MAX_REQUESTS_PER_CALL = 25  # the limit of DynamoDB
MAX_REQUESTS_PER_TRANSACTION = 100  # the same for a transaction
MAX_BYTES_PER_CALL = 3_500_000  # of 4 MiB that a transaction may have
MAX_ATTEMPTS = 6  # of calls of which the engine leaves out a part
Row = dict[str, dict[str, Any]]


def write_rows(model: type[Record], requests: Iterable[dict[str, Any]]) -> None:
    """Put and delete rows of a table, each at most once, in a few calls. Raise RecordsUnavailable."""
    is_own = platform().has_own_engine
    for batch in _split(requests, MAX_REQUESTS_PER_TRANSACTION if is_own else MAX_REQUESTS_PER_CALL):
        if is_own and len(batch) > 1:
            _write_transaction(model, batch)
        else:
            _write_batch(model, batch)


def _split(requests: Iterable[dict[str, Any]], count: int) -> Iterator[list[dict[str, Any]]]:
    """Split requests into batches for one call each, of at most `count` and MAX_BYTES_PER_CALL."""
    batch: list[dict[str, Any]] = []
    size = 0
    for request in requests:
        length = len(str(request))
        if batch and (len(batch) == count or size + length > MAX_BYTES_PER_CALL):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += length
    if batch:
        yield batch


def _write_transaction(model: type[Record], requests: list[dict[str, Any]]) -> None:
    table = {"TableName": model.Meta.table_name}
    items = [
        {name.removesuffix("Request"): table | content} for request in requests for name, content in request.items()
    ]
    with translate_errors():
        get_connection(model).client.transact_write_items(TransactItems=items)


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
