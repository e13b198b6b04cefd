"""The version of the records on one machine: noted, upgraded after a copy, refused when it is newer or too old."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.runtime import Runtime
from mangrove.records import users
from mangrove.records.store import upgrade as versions
from mangrove.records.store.base import Connections
from mangrove.records.store.counters import Counter
from mangrove.records.store.endpoints import EngineEndpoint, use_socket
from mangrove.records.store.upgrade import UPGRADABLE, VERSION, SchemaVersion
from mangrove.standalone import engine, upgrade
from mangrove.standalone.data_directory import DataDirectory, StartupError


class Records:
    """Records of a data directory, and the endpoint of their engine."""

    def __init__(self, directory: DataDirectory, endpoint: EngineEndpoint) -> None:
        self.directory = directory
        self.endpoint = endpoint
        self.done: list[str] = []

    def open(self, *names: str) -> None:
        """Act as a program whose upgrade has steps with these names; one named `broken` fails."""
        upgrade.open_tables(self.directory, self.endpoint, [lambda name=name: self.run(name) for name in names])

    def run(self, name: str) -> None:
        self.done.append(name)
        users.create(username=name, password_hash="x")
        if name == "broken":
            raise RuntimeError

    def make(self, version: int, program: str) -> None:
        """Make records of a version, with a user."""
        engine.create_tables(self.endpoint)
        users.create(username="from before", password_hash="x")
        SchemaVersion(versions.KEY, value=version, program=program).save()

    def copies(self) -> list[str]:
        return sorted(path.name for path in self.directory.data.glob("*records-version*"))


@pytest.fixture
def own(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    yield from open_own(tmp_path, monkeypatch)


def open_own(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with engine.run_engine(data) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint.url)
        monkeypatch.setenv("MANGROVE_RECORDS_SOCKET", endpoint.socket_path)
        with runtime.use(Runtime()):
            yield Records(DataDirectory(data), endpoint)


def dump(copy: Path) -> str:
    with closing(sqlite3.connect(copy)) as database:
        return "\n".join(database.iterdump())


def test_new_records_are_of_the_present_version_without_upgrade(own: Records) -> None:
    own.open("step")
    own.open("step")
    assert (own.done, own.copies()) == ([], [])
    assert (versions.read_version(), own.directory.read_schema()) == (VERSION, VERSION)


def test_tables_of_a_first_start_that_was_cut_off_are_new(own: Records) -> None:
    engine.create_tables(own.endpoint)
    own.open("step")
    assert (own.done, own.copies(), versions.read_version()) == ([], [], VERSION)


def test_records_of_0_3_0_are_upgraded_once_after_a_copy(own: Records) -> None:
    own.make(UPGRADABLE, "0.3.0")
    own.directory.write_schema(UPGRADABLE)
    for folder in ("index/1", "staging/task"):
        (own.directory.data / folder).mkdir(parents=True)
    (own.directory.data / "staging" / "task" / "lent").touch()
    own.open("step", "other")
    assert not (own.directory.data / "index").exists(), "it is built anew"
    assert [path.name for path in (own.directory.data / "staging" / "task").iterdir()] == ["pinned"]
    assert own.done == ["step", "other"]
    assert own.copies() == ["records-version-3.db"]
    records_before = dump(own.directory.data / "records-version-3.db")
    assert "from before" in records_before and "other" not in records_before
    own.open("step", "other")
    assert own.done == ["step", "other"]
    assert (versions.read_version(), own.directory.read_schema()) == (VERSION, VERSION)


def test_upgrade_that_was_cut_off_goes_on_and_keeps_the_first_copy(own: Records) -> None:
    own.make(UPGRADABLE, "0.3.0")
    with pytest.raises(RuntimeError):
        own.open("broken", "step")
    assert versions.read_version() == UPGRADABLE
    own.open("again", "step")
    assert own.done == ["broken", "again", "step"]
    assert own.copies() == ["records-version-3.db"]
    assert "broken" not in dump(own.directory.data / "records-version-3.db")


def test_newer_records_are_refused_by_name_and_stay_as_they_are(own: Records) -> None:
    own.make(VERSION + 1, "9.9.9")
    with pytest.raises(StartupError) as refusal:
        own.open("step")
    assert str(refusal.value) == (
        f"the data directory {own.directory.data} is too new: the records are of version 5, this program knows 4: "
        "use Mangrove 9.9.9 or newer"
    )
    assert (own.done, own.copies()) == ([], [])


@pytest.mark.parametrize(("version", "program"), [(0, "0.1.0"), (1, "0.1.0"), (2, "0.2.0")])
def test_older_records_are_refused_by_name_and_stay_as_they_are(own: Records, version: int, program: str) -> None:
    own.make(version, program)
    if version < 2:
        Counter(versions.KEY, value=version).save()  # it had no MAC then
    if not version:
        Counter(versions.KEY).delete()  # the first one noted nothing
    with pytest.raises(StartupError) as refusal:
        own.open("step")
    assert str(refusal.value) == (
        f"the data directory {own.directory.data} is too old: the records are of version {version or 1}, which "
        f"Mangrove {program} wrote: start Mangrove 0.3.0 with them once, which upgrades them to version 3"
    )
    assert (own.done, own.copies(), own.directory.read_schema()) == ([], [], None)


def test_version_that_was_lowered_is_not_trusted(own: Records) -> None:
    own.open()
    users.create(username="ann", password_hash="x")
    SchemaVersion(versions.KEY, value=UPGRADABLE, program="0.3.0").save()
    with pytest.raises(StartupError) as refusal:
        own.open("step")
    assert str(refusal.value) == (
        f"the records in {own.directory.data} cannot be trusted: the records are of version 3, but they were of "
        f"version 4 before; restore a backup, or remove {own.directory.schema} if you put older records there yourself"
    )
    Counter(versions.KEY).delete()
    with pytest.raises(StartupError, match="are of version 1, but they were of version 4 before"):
        own.open("step")
    assert own.done == []


def test_indexes_that_the_template_lacks_are_deleted_and_missing_ones_made(own: Records) -> None:
    own.make(UPGRADABLE, "0.3.0")
    client = boto3.client("dynamodb", endpoint_url=own.endpoint.url)
    use_socket(client, own.endpoint.socket_path)
    client.update_table(
        TableName="mangrove-tasks", GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "shard_key"}}]
    )
    index = {"IndexName": "shelf", "KeySchema": [{"AttributeName": "shelf", "KeyType": "HASH"}]}
    client.update_table(
        TableName="mangrove-tasks",
        AttributeDefinitions=[{"AttributeName": "shelf", "AttributeType": "S"}],
        GlobalSecondaryIndexUpdates=[{"Create": index | {"Projection": {"ProjectionType": "KEYS_ONLY"}}}],
    )
    own.open()
    indexes = client.describe_table(TableName="mangrove-tasks")["Table"]["GlobalSecondaryIndexes"]
    assert {index["IndexName"] for index in indexes} == {"owner_key", "shard_key"}


def test_records_of_another_key_are_refused_in_words(own: Records) -> None:
    own.open()
    with runtime.use(runtime.current().keep(Connections)):
        another = own.directory.data / "another"
        another.write_bytes(bytes(32))
        runtime.put(Config, replace(Config(), key_file=another))
        with pytest.raises(StartupError, match="written with another key or by another program"):
            own.open()


def test_note_of_the_version_is_for_its_owner_alone_and_readable(own: Records) -> None:
    own.open()
    assert own.directory.schema.stat().st_mode & 0o777 == 0o600
    own.directory.schema.write_text("two")
    with pytest.raises(StartupError, match="schema cannot be read"):
        own.open()
