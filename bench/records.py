"""The records at size: users who are looked up one by one, and tasks of many owners in one table."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from uuid import uuid4

from bench.environment import Environment
from bench.table import work
from mangrove.configuration import snapshot
from mangrove.configuration import users as known
from mangrove.configuration.users import KnownUsers
from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from mangrove.identity import accounts, passwords
from mangrove.records import settings
from mangrove.records.accounts import users
from mangrove.records.accounts.users import UserRecord
from mangrove.records.store import unique
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks.keys import Status, make_done_order, make_owner_key, make_spread_key
from mangrove.records.tasks.model import NewTask, TaskRecord, TaskView, make_record
from tests import engine as engines

OWNERS = 1000  # of the tasks
PASSWORD = "correct horse"
WRITERS = 4  # threads that fill the table: the engine need not wait for what is made
ROUNDS, PAGE = 20, 50


def open_records(place: Environment) -> None:
    """An engine with empty tables for the rest of the measurements."""
    if "records" in place.kept:
        return
    place.kept["records"] = 1
    folder = place.folder / "records"
    folder.mkdir()
    endpoint = place.stack.enter_context(engines.engine())
    engines.enter(folder, endpoint)
    engines.create_tables()
    place.stack.enter_context(runtime.use(Runtime()))


def _fill_users(place: Environment) -> int:
    """How many users there are; they are made at the first call."""
    open_records(place)
    count = place.rows // 10
    if "users" not in place.kept:
        place.kept["users"] = count
        hashed = passwords.hash_password(PASSWORD)
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(lambda id: _save_user(id, hashed), range(1, count + 1)):
                pass
        unique.claim_all((unique.make_name(users.KIND, f"user {id}"), id) for id in range(1, count + 1))
    return count


def _save_user(id: int, hashed: str) -> None:
    """As `users.create` does, without a version of the configuration for each."""
    UserRecord(id, username=f"user {id}", password_hash=hashed).save()


def _time(call: Callable[[int], object], rounds: int = ROUNDS) -> float:
    """Milliseconds of a call, the median; `call` is given the number of the round."""
    taken = []
    for number in range(rounds):
        began = time.perf_counter()
        call(number)
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _name(place: Environment, number: int) -> str:
    return f"user {1 + (number * 7919) % _fill_users(place)}"


@work("users at size: snapshot after a change of one", "ms", most=10)
def time_snapshot(place: Environment) -> float:
    _fill_users(place)
    snapshot.refresh()

    def change(number: int) -> None:
        snapshot.latest()

    taken = []
    for number in range(ROUNDS):
        users.change(1 + number, permission=number)
        taken.append(_time(change, 1))
    return statistics.median(taken)


@work("users at size: the first snapshot of a process", "ms", most=20)
def time_first_snapshot(place: Environment) -> float:
    _fill_users(place)
    return _time(lambda _: snapshot.refresh())


@work("users at size: a request of somebody, cold", "ms", most=5)
def time_cold(place: Environment) -> float:
    _fill_users(place)
    runtime.get(KnownUsers).clear()
    return _time(lambda number: asyncio.run(known.find_by_name(_name(place, number))))


@work("users at size: a request of somebody, warm", "ms", most=1)
def time_warm(place: Environment) -> float:
    _fill_users(place)
    return _time(lambda _: asyncio.run(known.find_by_name("user 1")))


@work("users at size: login", "ms")
def time_login(place: Environment) -> float:
    _fill_users(place)
    static = passwords.make_static_hash(PASSWORD)
    return _time(lambda number: accounts.login(_name(place, number), static, "", "192.0.2.1", known.find))


@work("users at size: a page of 50 in the middle", "ms", most=200)
def time_user_page(place: Environment) -> float:
    middle = _fill_users(place) // 2
    return _time(lambda number: users.list_page(middle + number * PAGE, PAGE))


def _make_done(number: int) -> TaskRecord:
    view = TaskView(uuid4().hex[:21], f"copy {number}", "ann", 0, 2, "", 100.0, None, None, 5, "")
    record = make_record(NewTask("copy", 1 + number % OWNERS, view, {"version": 1}))
    record.owner_key = make_owner_key(int(record.owner), "copy", Status.DONE)
    record.spread_key = make_spread_key(view.id, "copy", Status.DONE)
    record.ordered = make_done_order(view.id, time.time())
    return record


def _fill_tasks(place: Environment) -> None:
    open_records(place)
    if "tasks" not in place.kept:
        place.kept["tasks"] = place.rows
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in pool.map(lambda first: _save_tasks(range(first, place.rows, WRITERS)), range(WRITERS)):
                pass


def _save_tasks(numbers: range) -> None:
    with TaskRecord.batch_write() as batch:
        for number in numbers:
            batch.save(_make_done(number))


def _list(start: int, owner: int | None) -> list[task_lists.Row]:
    rows: Iterator[task_lists.Row] = task_lists.list_rows("copy", True, owner, start, PAGE)
    return list(islice(rows, PAGE))


@work("tasks at size: an owner's page of 50 finished ones", "ms", most=20)
def time_own_page(place: Environment) -> float:
    _fill_tasks(place)
    return _time(lambda number: _list(0, 1 + number))


@work("tasks at size: everybody's page of 50, the first", "ms", most=40)
def time_page_of_all(place: Environment) -> float:
    _fill_tasks(place)
    return _time(lambda _: _list(0, None))


@work("tasks at size: everybody's page of 50, in the middle, once", "ms")
def time_middle_of_all(place: Environment) -> float:
    _fill_tasks(place)
    return _time(lambda _: _list(place.rows // 2, None), 1)


@work("tasks at size: a look for what is too old", "ms", most=50)
def time_sweep(place: Environment) -> float:
    _fill_tasks(place)
    return _time(lambda _: list(task_lists.list_ended("copy", time.time() - 86_400)))


@work("records at size: a setting saved and followed", "ms", most=20)
def time_setting(place: Environment) -> float:
    open_records(place)

    def save(number: int) -> None:
        settings.save({"site_title": str(number)})
        snapshot.latest()

    return _time(save)
