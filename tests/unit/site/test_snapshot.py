"""The configuration in memory: this process sees its own writes at once, others within their seconds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mangrove import runtime
from mangrove.config import Config
from mangrove.problems import Problem
from mangrove.records import metas, settings, storages, users
from mangrove.records.base import Connections, count_calls
from mangrove.records.crypto import Keyring
from mangrove.runtime import Runtime
from mangrove.site import snapshot

pytestmark = pytest.mark.usefixtures("records")


def trust(seconds: float | None) -> None:
    """How long this process trusts its snapshot."""
    runtime.put(Config, replace(Config(), snapshot_seconds=seconds))


def another_process() -> Runtime:
    return runtime.current().keep(Connections, Keyring)


def test_before_the_first_there_is_none() -> None:
    assert not snapshot.is_loaded()
    with pytest.raises(Problem, match="not loaded yet"):
        snapshot.current()
    assert snapshot.latest() is snapshot.current()
    assert snapshot.is_loaded()


def test_all_kinds_of_the_configuration_are_in_it() -> None:
    user = users.create(username="ann", password_hash="x")
    first = storages.create(mount_path="/b", order=2, driver="Virtual", modified=datetime.now(UTC))
    second = storages.create(mount_path="/a", order=1, driver="Virtual", modified=datetime.now(UTC))
    meta = metas.create(path="/a/x")
    settings.save({"site_title": "Mine"})
    now = snapshot.latest()
    assert now.users == {"ann": user}
    assert now.storages == (second, first)
    assert now.metas == {"/a/x": meta}
    assert now.settings["site_title"] == "Mine"
    assert now.version == 5


@pytest.mark.parametrize("seconds", [None, 3600.0, 0.0])
def test_this_process_sees_what_it_wrote_with_the_next_question(seconds: float | None) -> None:
    trust(seconds)
    before = asyncio.run(snapshot.fresh())
    user = users.create(username="ann", password_hash="x")
    assert snapshot.current() is before, "nothing is loaded while it is written"
    assert asyncio.run(snapshot.fresh()).users == {"ann": user}
    users.delete(user.id)
    assert snapshot.latest().users == {}


def test_a_fresh_snapshot_costs_no_call() -> None:
    trust(None)
    users.create(username="ann", password_hash="x")
    now = snapshot.latest()
    before = count_calls()
    assert all(asyncio.run(snapshot.fresh()) is now for _ in range(3))
    assert count_calls() == before


def test_an_old_snapshot_is_compared_by_its_version_alone() -> None:
    trust(0.0)
    users.create(username="ann", password_hash="x")
    now = snapshot.latest()
    before = count_calls()
    assert snapshot.latest() is now
    assert count_calls() == before + 1


def test_what_another_process_wrote_is_seen_when_the_snapshot_is_old_or_refreshed() -> None:
    trust(None)
    snapshot.latest()
    with runtime.use(another_process()):
        users.create(username="ann", password_hash="x")
    assert snapshot.latest().users == {}
    trust(0.0)
    assert list(snapshot.latest().users) == ["ann"]
    trust(None)
    with runtime.use(another_process()):
        users.create(username="bob", password_hash="x")
    assert list(snapshot.latest().users) == ["ann"]
    assert list(snapshot.refresh().users) == ["ann", "bob"]


def test_a_status_of_a_storage_loads_nothing_anew() -> None:
    trust(None)
    storage = storages.create(mount_path="/a", driver="Virtual", modified=datetime.now(UTC))
    now = snapshot.latest()
    storages.set_status(storage.id, "work")
    assert snapshot.latest() is now
    storages.change(storage.id, disabled=True)
    assert snapshot.latest().storages[0].disabled


def test_writes_at_once_are_all_seen() -> None:
    trust(None)
    snapshot.latest()

    def write(number: int) -> bool:
        users.create(username=f"u{number}", password_hash="x")
        return f"u{number}" in snapshot.latest().users

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(24)))
    assert len(snapshot.latest().users) == 24
