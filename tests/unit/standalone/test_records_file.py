"""The file of the records: it shrinks, and it is copied as of one moment while the engine writes."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mangrove.standalone import data_directory, engine
from mangrove.standalone.data_directory import StartupError
from tests.support import engine as engines

pytestmark = pytest.mark.long


TASKS, COUNTERS = f"{engine.TABLES}-tasks", f"{engine.TABLES}-counters"


@pytest.fixture(autouse=True)
def _own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def make_old_file(path: Path) -> None:
    """As the engine itself makes it: pages that become free stay in it."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE kept (text)")
        database.executemany("INSERT INTO kept VALUES (?)", [("x" * 1000,) for _ in range(2000)])
        database.execute("DELETE FROM kept WHERE rowid > 10")
        database.commit()
        database.execute("PRAGMA journal_mode = wal")


def test_a_file_from_before_is_changed_once_and_gives_back_what_was_free(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    make_old_file(path)
    before = path.stat().st_size
    for _ in range(2):
        data_directory.prepare_records(path)
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA auto_vacuum").fetchone() == (1,)
            assert database.execute("SELECT count(*) FROM kept").fetchone() == (10,)
    assert path.stat().st_size < before / 10


def test_a_new_file_is_for_the_owner_alone(tmp_path: Path) -> None:
    data_directory.prepare_records(tmp_path / "records.db")
    assert stat.S_IMODE((tmp_path / "records.db").stat().st_mode) == 0o600


def test_what_is_no_file_of_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records.db").write_bytes(b"something else " * 1000)
    with pytest.raises(StartupError, match=r"records\.db cannot be read: file is not a database"):
        data_directory.prepare_records(tmp_path / "records.db")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """A client of an engine on `tmp_path`."""
    with engine.run_engine(tmp_path) as endpoint, engines.open_client(endpoint) as client:
        engine.create_tables(endpoint)
        yield client


def write_tasks(client: Any, request: str, make: Callable[[int], dict[str, Any]]) -> None:
    """Put or delete thousands of tasks."""
    for start in range(0, 2500, 25):
        rows = [{request: make(number)} for number in range(start, start + 25)]
        assert not client.batch_write_item(RequestItems={TASKS: rows})["UnprocessedItems"]


def make_task(number: int) -> dict[str, Any]:
    texts = {"id": f"{number}", "shelf": "copy#done", "ordered": f"{number:09}", "shown": "x" * 3000}
    return {"Item": {name: {"S": text} for name, text in texts.items()}}


def test_the_file_of_thousands_of_tasks_shrinks_when_they_are_swept(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    write_tasks(client, "PutRequest", make_task)
    full = path.stat().st_size
    assert full > 8_000_000
    write_tasks(client, "DeleteRequest", lambda number: {"Key": {"id": {"S": f"{number}"}}})
    for number in range(10_000):  # what is written later moves the engine's log into the file
        if path.stat().st_size < full / 10:
            break
        client.put_item(TableName=COUNTERS, Item={"key": {"S": "kept"}, "value": {"N": f"{number}"}})
    assert path.stat().st_size < full / 10


def write_pairs(client: Any, ends: threading.Event, written: list[int]) -> None:
    """Write the same number into two records, one after the other."""
    while not ends.is_set():
        number = len(written) + 1
        items = [{"key": {"S": key}, "value": {"N": f"{number}"}, "more": {"S": "x" * 20_000}} for key in "ab"]
        client.transact_write_items(TransactItems=[{"Put": {"TableName": COUNTERS, "Item": item}} for item in items])
        written.append(number)


def read_pair(folder: Path) -> list[int]:
    """The two numbers, as an engine on a copied file tells them."""
    with engine.run_engine(folder) as endpoint, engines.open_client(endpoint) as client:
        items = [client.get_item(TableName=COUNTERS, Key={"key": {"S": key}})["Item"] for key in "ab"]
        return [int(item["value"]["N"]) for item in items]


def test_a_copy_has_all_that_was_written_before_it_and_no_half_of_a_change(client: Any, tmp_path: Path) -> None:
    ends, written = threading.Event(), [0]
    writer = threading.Thread(target=write_pairs, args=(client, ends, written))
    writer.start()
    try:
        for number in range(5):
            folder = tmp_path / f"copy{number}"
            folder.mkdir()
            before = len(written)
            while len(written) == before:
                ends.wait(0.01)
            acknowledged = written[-1]
            data_directory.copy_records(tmp_path / "records.db", folder / "records.db", is_running=True)
            first, second = read_pair(folder)
            assert first == second >= acknowledged
    finally:
        ends.set()
        writer.join()


def test_a_copy_is_for_the_owner_alone_and_replaces_nothing(client: object, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    data_directory.copy_records(tmp_path / "records.db", copy, is_running=True)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        data_directory.copy_records(tmp_path / "records.db", copy, is_running=True)


def test_damaged_records_are_not_copied_as_if_they_were_whole(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    make_old_file(path)
    data_directory.prepare_records(path)
    content = bytearray(path.read_bytes())
    content[5000:9000] = b"?" * 4000
    path.write_bytes(content)
    with pytest.raises(StartupError, match=r"the records in .* (are damaged|cannot be copied)"):
        data_directory.copy_records(path, tmp_path / "copy.db", is_running=False)
