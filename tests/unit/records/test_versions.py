"""The version of the configuration rises with every write of it, or neither happens; notes say what changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from mangrove.core import runtime
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records import metas, settings, storages, users
from mangrove.records.store import counters, versions
from mangrove.records.store.base import Connections, NameTaken, RecordConflict, delete_expired
from mangrove.records.store.counters import Counter
from mangrove.records.store.keys import Keyring
from mangrove.records.store.versions import MAX_NOTES, read_changes

pytestmark = pytest.mark.usefixtures("records")


def test_every_version_says_what_changed() -> None:
    user = users.create(username="ann", password_hash="x")
    meta = metas.create(path="/a")
    storage = storages.create(mount_path="/s", driver="Virtual", modified=datetime.now(UTC))
    settings.save({"a": "1", "b": "2"})
    users.change(user.id, permission=1)
    users.change(user.id, username="bob")
    storages.replace_addition(storage.id, "", "{}")
    metas.delete(meta.id)
    settings.delete("a")
    assert versions.get_version() == 9
    steps = [read_changes(version, version + 1) for version in range(9)]
    ann, disk = {"users": {user.id}}, {"storages": {storage.id}}
    assert steps[:4] == [ann, {"metas": {meta.id}}, disk, {"settings": {"a", "b"}}]
    assert steps[4:] == [ann, ann, disk, {"metas": {meta.id}}, {"settings": {"a"}}]
    together = read_changes(0, 9)
    assert together == {**ann, **disk, "metas": {meta.id}, "settings": {"a", "b"}}


def test_what_changed_is_not_known_for_ever() -> None:
    for number in range(3):
        settings.save({"a": str(number)})
    assert read_changes(0, 3) is not None
    assert read_changes(3, 3 + MAX_NOTES + 1) is None, "reading everything is cheaper"
    assert read_changes(3, 2) is None, "the records are older than the question"
    Counter("change#2").delete()
    assert read_changes(0, 3) is None
    assert read_changes(2, 3) is not None


def test_a_write_whose_version_cannot_rise_does_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    user = users.create(username="ann", password_hash="x")
    monkeypatch.setattr(versions, "get_version", lambda: 7)  # which it never is
    monkeypatch.setattr(versions, "MAX_ATTEMPTS", 2)
    for work in (
        lambda: users.change(user.id, permission=1),
        lambda: users.change(user.id, username="bob"),
        lambda: users.create(username="eve", password_hash="x"),
        lambda: users.delete(user.id),
        lambda: settings.save({"a": "1"}),
    ):
        with pytest.raises(RecordConflict):
            work()
    monkeypatch.undo()
    assert (users.all(), settings.all(), versions.get_version()) == ([user], {}, 1)
    assert change_counters().read(Topic.CONFIGURATION) == 1


def test_writes_of_several_processes_at_once_all_raise_the_version() -> None:
    def write(number: int) -> None:
        with runtime.use(runtime.current().keep(Connections, Keyring)):
            users.create(username=f"u{number}", password_hash="x")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(16)))
    assert versions.get_version() == 16
    assert len(users.all()) == 16
    changes = read_changes(0, 16)
    assert changes == {"users": {user.id for user in users.all()}}


def test_a_taken_name_raises_nothing() -> None:
    users.create(username="ann", password_hash="x")
    with pytest.raises(NameTaken):
        users.create(username="ann", password_hash="x")
    assert versions.get_version() == 1


def test_notes_end_and_are_swept() -> None:
    settings.save({"a": "1"})
    (note,) = Counter.scan(Counter.key.startswith("change#"))
    note.expires = datetime(2020, 1, 1, tzinfo=UTC)
    note.save()
    delete_expired(counters.Counter)
    assert read_changes(0, 1) is None
    assert versions.get_version() == 1
