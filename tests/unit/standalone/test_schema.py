"""The version of the records on one machine: noted, upgraded after a copy, refused when it is newer."""

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
from mangrove.core.problems import Problem
from mangrove.core.runtime import Runtime
from mangrove.records.accounts import users
from mangrove.records.store import schema as versions
from mangrove.records.store.base import Connections
from mangrove.records.store.endpoints import Endpoint, use_socket
from mangrove.records.store.schema import Upgrade
from mangrove.records.tasks import lists as task_lists
from mangrove.standalone import engine, schema
from mangrove.standalone.data_directory import DataDirectory, StartupError
from tests.old_records import make_old, read_master


class Records:
    """Records of a data directory, and the endpoint of their engine."""

    def __init__(self, directory: DataDirectory, endpoint: Endpoint) -> None:
        self.directory = directory
        self.endpoint = endpoint
        self.done: list[str] = []

    def open(self, *names: str) -> None:
        """As a program with upgrades of these names; one that is called `broken` fails."""
        schema.open_tables(self.directory, self.endpoint, [self.make_upgrade(name) for name in names])

    def make_upgrade(self, name: str) -> Upgrade:
        def apply() -> None:
            self.done.append(name)
            users.create(username=name, password_hash="x")
            if name == "broken":
                raise RuntimeError

        return Upgrade(f"1.{name}", apply)

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


def list_users(copy: Path) -> str:
    with closing(sqlite3.connect(copy)) as database:
        return "\n".join(database.iterdump())


def test_new_records_are_of_the_present_version_and_need_no_upgrade(own: Records) -> None:
    own.open("two", "three")
    own.open("two", "three")
    assert (own.done, own.copies()) == ([], [])
    assert versions.read_version([own.make_upgrade(name) for name in ("two", "three")]) == 3


def test_records_from_before_there_were_versions_are_upgraded_after_a_copy(own: Records) -> None:
    engine.create_tables(own.endpoint)
    users.create(username="from before", password_hash="x")
    own.open("two", "three")
    assert own.done == ["two", "three"]
    assert own.copies() == ["records-version-1.db"]
    kept = list_users(own.directory.data / "records-version-1.db")
    assert "from before" in kept
    assert "three" not in kept
    own.open("two", "three", "four")
    assert own.done == ["two", "three", "four"]
    assert own.copies() == ["records-version-1.db", "records-version-3.db"]
    own.open("two", "three", "four")
    assert own.done == ["two", "three", "four"]


def test_an_upgrade_that_was_cut_off_goes_on_and_keeps_the_first_copy(own: Records) -> None:
    engine.create_tables(own.endpoint)
    with pytest.raises(RuntimeError):
        own.open("broken", "three")
    assert "broken" not in list_users(own.directory.data / "records-version-1.db")
    own.open("again", "three")
    assert own.done == ["broken", "again", "three"]
    assert own.copies() == ["records-version-1.db"]
    assert "broken" not in list_users(own.directory.data / "records-version-1.db")


def test_records_of_a_newer_version_are_refused_by_name_and_stay_as_they_are(own: Records) -> None:
    own.open("two", "three", "four")
    with pytest.raises(StartupError) as refusal:
        own.open("two")
    assert str(refusal.value) == (
        f"the data directory {own.directory.data} is too new: the records are of version 4, this program knows 2: "
        "use Mangrove 1.four or newer"
    )
    assert (own.done, own.copies()) == ([], [])
    own.open("two", "three", "four")


def test_an_old_data_directory_is_protected_after_a_copy_and_never_again(own: Records) -> None:
    (own.directory.data / "key").write_bytes(read_master())
    schema.open_tables(own.directory, own.endpoint)
    ann = users.create(username="ann", password_hash="x")
    make_old(own.endpoint, read_master())
    own.directory.schema.unlink()  # it had none
    assert users.all() == []
    schema.open_tables(own.directory, own.endpoint)
    assert users.all() == [ann]
    assert own.copies() == ["records-version-1.db"]
    assert (own.directory.read_schema(), versions.read_version()) == (3, 3)

    make_old(own.endpoint, read_master())
    with pytest.raises(StartupError) as refusal:
        schema.open_tables(own.directory, own.endpoint)
    assert str(refusal.value) == (
        f"the records in {own.directory.data} are not to be trusted: the records are of version 1, but they were of "
        f"version 3 before; restore a backup, or remove {own.directory.schema} if you put older records there yourself"
    )
    assert users.all() == []


def test_tables_from_before_get_the_indexes_that_they_do_not_have(own: Records) -> None:
    schema.open_tables(own.directory, own.endpoint)
    ann = users.create(username="ann", password_hash="x", role=2)
    client = boto3.client("dynamodb", endpoint_url=own.endpoint.url)
    use_socket(client, own.endpoint.socket_path)
    for table, index in (("mangrove-users", "role"), ("mangrove-tasks", "spread")):
        client.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": index}}])
    with pytest.raises(Problem):
        users.find_by_role(2)
    versions.write_version(2, "0.2.0")
    own.directory.write_schema(2)
    schema.open_tables(own.directory, own.endpoint)
    assert users.find_by_role(2) == ann
    assert own.copies() == ["records-version-2.db"]
    assert list(task_lists.list_rows("copy", False)) == []


def test_records_of_another_key_are_refused_in_words(own: Records) -> None:
    schema.open_tables(own.directory, own.endpoint)
    with runtime.use(runtime.current().keep(Connections)):
        another = own.directory.data / "another"
        another.write_bytes(bytes(32))
        runtime.put(Config, replace(Config(), key_file=another))
        with pytest.raises(StartupError, match="written with another key or by another program"):
            schema.open_tables(own.directory, own.endpoint)


def test_the_note_of_the_version_is_for_its_owner_alone_and_readable_or_refused(own: Records) -> None:
    schema.open_tables(own.directory, own.endpoint)
    assert own.directory.schema.stat().st_mode & 0o777 == 0o600
    own.directory.schema.write_text("two")
    with pytest.raises(StartupError, match="schema cannot be read"):
        schema.open_tables(own.directory, own.endpoint)


def test_records_without_a_version_are_of_the_first_one(own: Records) -> None:
    engine.create_tables(own.endpoint)
    own.open()
    assert versions.read_version() == versions.FIRST
    assert own.copies() == []
