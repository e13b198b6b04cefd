"""Users are looked up when they are asked for, and remembered until they change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import boto3
import pytest

from mangrove import configuration
from mangrove.configuration import users as known
from mangrove.configuration.snapshot import known_users
from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.runtime import Runtime
from mangrove.records import users
from mangrove.records.store import repository
from mangrove.records.store.base import Connections, NameTaken, count_calls
from mangrove.records.store.keys import Keyring
from mangrove.records.store.versions import MAX_NOTES
from mangrove.records.users import User

pytestmark = pytest.mark.usefixtures("records")


def trust(seconds: float | None) -> None:
    runtime.put(Config, replace(Config(), snapshot_seconds=seconds))


def another_process() -> Runtime:
    return runtime.current().keep(Connections, Keyring)


def create(name: str = "ann", role: int = 0) -> User:
    return users.create(username=name, password_hash="x", role=role)


def ask(name: str) -> User | None:
    """As a request does."""

    async def find() -> User | None:
        await configuration.get()
        return await known.find_by_name(name)

    return asyncio.run(find())


def count(call: Callable[[], object]) -> int:
    before = count_calls()
    call()
    return count_calls() - before


def test_a_snapshot_has_no_users_and_one_who_asks_costs_two_calls_once() -> None:
    ann, _ = create(), [create(f"user {number}") for number in range(5)]
    trust(None)
    assert count(configuration.reload) == 5, "the version, storages, rules, groups and settings"
    assert count(lambda: ask("ann")) == 2
    assert count(lambda: ask("ann")) == 0
    assert ask("ann") == ann
    assert asyncio.run(known.find_by_id(ann.id)) is ask("ann")
    assert count(lambda: known.get(ann.id)) == 0


def test_users_are_found_by_role() -> None:
    admin, guest = create("admin", 2), create("guest", 1)
    create()
    assert asyncio.run(known.find_by_role(2)) == admin
    assert asyncio.run(known.find_by_role(1)) == guest
    assert count(lambda: asyncio.run(known.find_by_role(1))) == 0
    assert ask("guest") == guest


@pytest.mark.parametrize("seconds", [None, 3600.0, 0.0])
def test_what_this_process_changes_is_seen_with_the_next_question(seconds: float | None) -> None:
    trust(seconds)
    ann, bob = create(), create("bob")
    assert (ask("ann"), remembered := ask("bob")) == (ann, bob)
    users.change(ann.id, disabled=True)
    assert ask("ann") == replace(ann, disabled=True)
    users.change(ann.id, username="eve")
    assert (ask("ann"), ask("eve")) == (None, replace(ann, disabled=True, username="eve"))
    users.delete(ann.id)
    assert ask("eve") is None and asyncio.run(known.find_by_id(ann.id)) is None
    another = create()
    assert ask("ann") == another and ask("bob") is remembered, "who did not change is not read anew"


def test_what_another_process_changes_is_seen_once_the_snapshot_is_old() -> None:
    trust(None)
    ann, guest = create(), create("guest", 1)
    ask("ann"), asyncio.run(known.find_by_role(1))
    with runtime.use(another_process()):
        users.change(ann.id, permission=1)
        users.change(guest.id, username="visitor", disabled=True)
    assert ask("ann") == ann
    trust(0.0)
    assert ask("ann") == replace(ann, permission=1)
    assert asyncio.run(known.find_by_role(1)) == replace(guest, username="visitor", disabled=True)
    with runtime.use(another_process()):
        for number in range(MAX_NOTES):
            users.change(guest.id, permission=number)
        users.delete(ann.id)
    assert ask("ann") is None, "when too much has changed, nobody is remembered"


def test_after_a_change_one_user_costs_one_call() -> None:
    trust(None)
    ann = create()
    ask("ann")
    users.change(ann.id, permission=1)
    assert count(lambda: ask("ann")) == 3, "the version, what changed, and the user"


def test_who_was_read_before_a_change_is_not_remembered_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trust(None)
    ann = create()
    configuration.get_sync()
    was_read, is_changed, get = threading.Event(), threading.Event(), users.get

    def get_slowly(id: int) -> User:
        user = get(id)
        was_read.set()
        assert is_changed.wait(60)
        return user

    monkeypatch.setattr(users, "get", get_slowly)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(known.find, "ann")
        assert was_read.wait(60)
        monkeypatch.setattr(users, "get", get)
        users.change(ann.id, disabled=True)
        configuration.get_sync()
        is_changed.set()
        assert asking.result() == ann
    assert ask("ann") == replace(ann, disabled=True)


def test_no_more_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.configuration.known_users.MAX_CACHED_USERS", 3)
    for number in range(5):
        create(f"user {number}")
    for number in (0, 1, 2, 0, 3, 4):
        ask(f"user {number}")
    assert [count(lambda name=name: ask(name)) for name in ("user 0", "user 3", "user 4")] == [0, 0, 0]
    assert count(lambda: ask("user 1")) == 2


def test_a_name_that_points_to_another_user_is_nobodys(engine: str) -> None:
    """The names have no MAC: a program that writes them must not become another user."""
    admin = create("admin", 2)
    repository.Claim(repository.make_name(users.KIND, "eve"), owner=admin.id).save()
    assert ask("eve") is None and users.find("e" * 3000) is None
    client = boto3.client("dynamodb", endpoint_url=engine)
    forged = {"id": {"N": "1"}, "role": {"N": "2"}, "username": {"S": "eve"}, "version": {"N": "1"}}
    client.put_item(TableName="mangrove-users", Item=forged | {"id": {"N": "-5"}})
    known_users().clear()
    assert asyncio.run(known.find_by_role(2)) == admin


def test_user_pages_are_in_id_order_including_guest() -> None:
    made = [create(f"user {number}", {4: 1, 9: 2}.get(number, 0)) for number in range(14)]
    for gone in (0, 7, 11):
        users.delete(made[gone].id)
    whole = users.all()
    for size in (1, 3, 5, 20):
        for start in (*range(12), 10**18):
            assert users.list_page(start, size) == (whole[start : start + size], 11)
    assert users.list_page(0, None) == (whole, 11)


def test_a_page_reads_its_own_users_alone() -> None:
    for number in range(30):
        create(f"user {number}")
    assert count(lambda: users.list_page(20, 5)) == 6, "the two other roles, how many, how many before, ids, users"


def test_look_alikes_are_kept_apart_by_the_records_whoever_writes() -> None:
    ann = create("ann")
    names = [f"{letter}nn" for letter in "A\u0430\u0251"]
    with ThreadPoolExecutor(3) as pool:
        failures = [future.exception() for future in [pool.submit(create, name) for name in names]]
    assert [str(failure) for failure in failures] == [users.LOOKALIKE_TAKEN] * 3
    with pytest.raises(NameTaken):
        create("ann")
    with ThreadPoolExecutor(2) as pool:
        made = [future.exception() for future in [pool.submit(create, name) for name in ("Bob", "bob")]]
    assert sum(failure is None for failure in made) == 1
    users.change(ann.id, username="Ann")
    users.delete(ann.id)
    assert create("ann").id


def test_an_older_user_who_looks_like_another_keeps_the_others_claim() -> None:
    ann = create("ann")
    old = create("other")
    for name in users.make_looks("other"):
        repository.Claim(name, owner=ann.id).save()
    users.change(old.id, username="third")
    with pytest.raises(Exception, match=users.LOOKALIKE_TAKEN):
        create("Other")
