"""Users and finished tasks of a running service: `python -m bench.records COUNT` in its environment writes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from mangrove.identity.passwords import hash_password
from mangrove.records.store.raw_rows import MAX_REQUESTS_PER_CALL, write_rows
from mangrove.records.store.repository import Claim, make_name
from mangrove.records.tasks.model import NewTask, TaskRecord, TaskView, make_record
from mangrove.records.tasks.ordering import TaskStatus, make_done_order, make_owner_key, make_shard_key
from mangrove.records.users import KIND, UserRecord
from tests.support.service import ADMIN_PASSWORD

FIRST_ID = 1000
WRITE_CONCURRENCY = 8  # calls


def write_users(count: int) -> None:
    """Write users `user 0`, `user 1`, … who have the password of the administrator."""
    password_hash = hash_password(ADMIN_PASSWORD)
    _save(count, lambda number: UserRecord(FIRST_ID + number, username=f"user {number}", password_hash=password_hash))
    _save(count, lambda number: Claim(make_name(KIND, f"user {number}"), owner=FIRST_ID + number))


def write_tasks(count: int) -> None:
    """Write finished copies of the administrator."""
    now = time.time()
    ended = datetime.fromtimestamp(now, UTC).isoformat()

    def make(number: int) -> TaskRecord:
        id = f"task{number:08}"
        view = TaskView(id, f"copy {number}", "admin", 2, 2, "", 100.0, ended, ended, 1, "")
        record = make_record(NewTask("copy", 1, view, {}))
        record.owner_key = make_owner_key(1, "copy", TaskStatus.DONE)
        record.shard_key = make_shard_key(id, "copy", TaskStatus.DONE)
        record.ordered = make_done_order(id, now)
        return record

    _save(count, make)


def _save(count: int, make: Callable[[int], Any]) -> None:
    """Save new records of one table, which are made of numbers. pynamodb's own batches would leave out the MAC."""

    def write(first: int) -> None:
        records = [make(number) for number in range(first, min(first + MAX_REQUESTS_PER_CALL, count))]
        items = (record.get_save_kwargs_from_instance()["Item"] for record in records)
        write_rows(type(records[0]), ({"PutRequest": {"Item": item}} for item in items))

    with ThreadPoolExecutor(WRITE_CONCURRENCY) as pool:
        list(pool.map(write, range(0, count, MAX_REQUESTS_PER_CALL)))


if __name__ == "__main__":
    write_users(int(sys.argv[1]))
    write_tasks(int(sys.argv[1]))
