"""The configuration in memory: this process sees its own writes immediately, others within their interval."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mangrove import configuration
from mangrove.configuration import settings as saved_settings
from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import Problem, RecordsUnavailable
from mangrove.core.runtime import Runtime
from mangrove.records import metas, settings, storages, users
from mangrove.records.store import versions
from mangrove.records.store.base import Connections, count_calls
from mangrove.records.store.keys import Key, Keyring, keyring
from mangrove.records.store.versions import MAX_NOTES

pytestmark = pytest.mark.usefixtures("records")


def trust(seconds: float | None) -> None:
    """Set the time for which this process trusts its snapshot."""
    runtime.put(Config, replace(Config(), snapshot_seconds=seconds))


def another_process() -> Runtime:
    return runtime.current().keep(Connections, Keyring)


def test_before_the_first_there_is_none() -> None:
    assert not configuration.is_loaded()
    with pytest.raises(Problem, match="not loaded yet"):
        configuration.cached()
    assert configuration.get_sync() is configuration.cached()
    assert configuration.is_loaded()


def test_all_kinds_of_the_configuration_are_in_it() -> None:
    users.create(username="ann", password_hash="x")
    first = storages.create(mount_path="/b", order=2, driver="Virtual", modified=datetime.now(UTC))
    second = storages.create(mount_path="/a", order=1, driver="Virtual", modified=datetime.now(UTC))
    meta = metas.create(path="/a/x")
    settings.save({"site_title": "Mine"})
    now = configuration.get_sync()
    assert now.storages == (second, first)
    assert now.metas == {"/a/x": meta}
    assert now.settings["site_title"] == "Mine"
    assert now.version == 5


@pytest.mark.parametrize("seconds", [None, 3600.0, 0.0])
def test_this_process_sees_what_it_wrote_with_the_next_question(seconds: float | None) -> None:
    trust(seconds)
    before = asyncio.run(configuration.get())
    meta = metas.create(path="/a")
    assert configuration.cached() is before, "nothing is loaded while it is written"
    assert asyncio.run(configuration.get()).metas == {"/a": meta}
    metas.delete(meta.id)
    assert configuration.get_sync().metas == {}


def test_a_fresh_snapshot_costs_no_call() -> None:
    trust(None)
    users.create(username="ann", password_hash="x")
    now = configuration.get_sync()
    before = count_calls()
    assert all(asyncio.run(configuration.get()) is now for _ in range(3))
    assert count_calls() == before


def test_an_old_snapshot_is_compared_by_its_version_alone() -> None:
    trust(0.0)
    users.create(username="ann", password_hash="x")
    now = configuration.get_sync()
    before = count_calls()
    assert configuration.get_sync() is now
    assert count_calls() == before + 1


def test_changes_of_other_process_are_seen_after_snapshot_age() -> None:
    trust(None)
    configuration.get_sync()
    with runtime.use(another_process()):
        metas.create(path="/a")
    assert configuration.get_sync().metas == {}
    trust(0.0)
    assert list(configuration.get_sync().metas) == ["/a"]
    trust(None)
    with runtime.use(another_process()):
        metas.create(path="/b")
    assert list(configuration.get_sync().metas) == ["/a"]
    assert list(configuration.reload().metas) == ["/a", "/b"]


def test_only_what_changed_is_read_anew_whoever_wrote_it() -> None:
    trust(0.0)
    rule = metas.create(path="/kept")
    meta = metas.create(path="/a")
    settings.save({"site_title": "Mine", "old": "1"})
    before = configuration.get_sync()
    with runtime.use(another_process()):
        metas.change(meta.id, path="/b")
        metas.create(path="/new")
        metas.delete(metas.create(path="/gone").id)
        users.create(username="ann", password_hash="x")
    calls = count_calls()
    now = configuration.get_sync()
    assert count_calls() - calls == 3, "the version, what changed, and those rules"
    assert list(now.metas) == ["/kept", "/b", "/new"]
    assert now.metas["/kept"] is before.metas["/kept"]
    assert now.metas["/kept"] == rule
    assert (now.storages, now.settings) == (before.storages, before.settings)
    settings.save({"site_title": "Ours"})
    settings.delete("old")
    after = configuration.get_sync()
    assert after.settings["site_title"] == "Ours"
    assert "old" not in after.settings
    assert after.metas is now.metas
    assert dict(after.settings) == dict(configuration.reload().settings)


def test_storages_and_rules_follow_their_changes() -> None:
    trust(None)
    made = [
        storages.create(mount_path=path, order=order, driver="Virtual", modified=datetime.now(UTC))
        for path, order in (("/a", 1), ("/b", 2), ("/c", 3))
    ]
    rules = [metas.create(path=path) for path in ("/x", "/y")]
    configuration.get_sync()
    storages.change(made[2].id, order=0)
    storages.delete(made[1].id)
    metas.change(rules[0].id, path="/z")
    metas.delete(rules[1].id)
    now = configuration.get_sync()
    assert [storage.mount_path for storage in now.storages] == ["/c", "/a"]
    assert list(now.metas) == ["/z"]
    assert (now.storages, now.metas) == (configuration.reload().storages, configuration.reload().metas)


def test_who_knows_too_little_of_what_changed_reads_everything() -> None:
    trust(0.0)
    configuration.get_sync()
    with runtime.use(another_process()):
        for number in range(MAX_NOTES + 1):
            settings.save({"site_title": str(number)})
        metas.create(path="/a")
    now = configuration.get_sync()
    assert (now.settings["site_title"], list(now.metas)) == (str(MAX_NOTES), ["/a"])


def test_a_status_of_a_storage_loads_nothing_anew() -> None:
    trust(None)
    storage = storages.create(mount_path="/a", driver="Virtual", modified=datetime.now(UTC))
    now = configuration.get_sync()
    storages.set_status(storage.id, "work")
    assert configuration.get_sync() is now
    storages.change(storage.id, disabled=True)
    assert configuration.get_sync().storages[0].disabled


def test_writes_at_once_are_all_seen() -> None:
    trust(None)
    configuration.get_sync()

    def write(number: int) -> bool:
        metas.create(path=f"/{number}")
        return f"/{number}" in configuration.get_sync().metas

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(24)))
    assert len(configuration.get_sync().metas) == 24


def be_function() -> None:
    runtime.put(Config, replace(Config(), is_function=True, snapshot_seconds=3600.0))


def test_a_function_reads_it_while_it_is_set_up_and_a_machine_does_not() -> None:
    configuration.prefetch()
    assert not configuration.is_loaded()
    be_function()
    configuration.prefetch()
    calls = count_calls()
    assert asyncio.run(configuration.get()) is configuration.cached()
    assert count_calls() == calls


def test_a_memory_that_goes_on_later_is_compared_before_it_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    be_function()
    configuration.prefetch()
    calls = count_calls()
    asyncio.run(configuration.get())
    assert count_calls() == calls + 1


def test_what_cannot_be_read_yet_is_read_with_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise RecordsUnavailable

    be_function()
    with monkeypatch.context() as broken:
        broken.setattr(versions, "get_version", fail)
        configuration.prefetch()
    assert not configuration.is_loaded()
    assert configuration.get_sync() is configuration.cached()


def run_function(part: str) -> Runtime:
    """Return the runtime of a function that reads a part of the configuration and has no key but that of MACs."""
    key = keyring().get(Key.INTEGRITY)
    own = runtime.current().keep(Connections)
    with runtime.use(own):
        runtime.put(Config, replace(Config(), key_file=None, configuration=part, snapshot_seconds=0.0))
        keyring().put(Key.INTEGRITY, key)
    return own


def test_public_part_is_read_without_the_key_of_encryption() -> None:
    storages.create(mount_path="/a", driver="Virtual", modified=datetime.now(UTC))
    saved_settings.save({"site_title": "Mine", "customize_head": "<meta>", "sso_client_secret": "hush"})
    with runtime.use(run_function("public")):
        now = configuration.get_sync()
        assert (now.settings["site_title"], now.settings["customize_head"]) == ("Mine", "<meta>")
        assert now.settings["sso_client_secret"] == ""
        with pytest.raises(Problem, match="does not read the storages"):
            list(now.storages)
    saved_settings.save({"site_title": "Yours"})
    metas.create(path="/b")
    with runtime.use(run_function("public")):
        assert configuration.get_sync().settings["site_title"] == "Yours"


def test_public_part_takes_changes_over_one_by_one() -> None:
    saved_settings.save({"site_title": "Mine"})
    function = run_function("public")
    with runtime.use(function):
        before = configuration.get_sync()
    saved_settings.save({"site_title": "Yours"})
    storages.create(mount_path="/a", driver="Virtual", modified=datetime.now(UTC))
    with runtime.use(function):
        now = configuration.get_sync()
        assert (before.settings["site_title"], now.settings["site_title"]) == ("Mine", "Yours")
        assert now.version == before.version + 2


def test_process_without_storages_reads_the_rest(own_runtime: Runtime) -> None:
    storages.create(mount_path="/a", driver="Virtual", modified=datetime.now(UTC))
    meta = metas.create(path="/b", password="hush")
    runtime.put(Config, replace(Config(), configuration="without storages", snapshot_seconds=0.0))
    assert configuration.get_sync().metas == {"/b": meta}
    storages.create(mount_path="/c", driver="Virtual", modified=datetime.now(UTC))
    with pytest.raises(Problem, match="does not read the storages"):
        list(configuration.get_sync().storages)


def test_settings_of_an_earlier_version_become_visible_once() -> None:
    settings.save({"site_title": "Mine", "token": "t" * 40})  # without what is in the clear, as 0.3.0 does
    assert settings.all_visible() == {}
    saved_settings.store_visible()
    assert settings.all_visible() == {"site_title": "Mine"}
    before = configuration.get_sync().version
    saved_settings.store_visible()
    assert configuration.get_sync().version == before
