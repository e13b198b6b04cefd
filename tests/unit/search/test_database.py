"""The database of the index: bounded, confined, and each caller on its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import SearchTooSlow
from mangrove.search.calls import DamagedSegment, InvalidStatement
from mangrove.search.database import Database
from mangrove.search.index import search_index
from mangrove.search.threads import ThreadRunner
from tests.unit.search.index_files import file, use_index, write_names

ENDLESS = "select sum(hash(range)) from range(1000000000000)"
COUNT = "select count(*) from read_parquet(?)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with use_index(tmp_path / "it's an [index]*"):
        yield search_index().database


def test_parameters_are_no_text_of_the_statement(database: Database) -> None:
    text = "'; drop table hidden; --\n\x1a\U0001f600"
    assert asyncio.run(database.run("select ?, ?", [text, 1])) == [(text, 1)]


def test_a_change_is_seen_by_all_later_statements_or_not_at_all(database: Database) -> None:
    async def work() -> None:
        await database.change([("insert into hidden values (?, ?)", [1, "/a"])])
        with pytest.raises(InvalidStatement):
            await database.change([("delete from hidden", []), ("select nothing", [])])
        assert await database.run("select * from hidden") == [(1, "/a")]
        assert await database.run("select * from names") == []

    asyncio.run(work())


def test_what_takes_too_long_is_interrupted_and_nothing_else(database: Database) -> None:
    async def work() -> None:
        other = asyncio.create_task(database.run("select sum(hash(range)) from range(30000000)", seconds=60))
        began = time.monotonic()
        with pytest.raises(SearchTooSlow):
            await database.run(ENDLESS, seconds=0.1)
        assert time.monotonic() - began < 30  # of a statement without an end
        assert len(await other) == 1
        assert await database.run("select 1", seconds=30) == [(1,)]

    asyncio.run(work())


def test_a_caller_who_leaves_frees_his_thread(database: Database) -> None:
    async def work() -> None:
        for _ in range(3):
            leaving = [asyncio.create_task(database.run(ENDLESS, seconds=60)) for _ in range(3)]
            await asyncio.sleep(0.02)
            for task in leaving:
                task.cancel()
            await asyncio.wait(leaving)
        assert await database.run("select 1", seconds=30) == [(1,)]

    asyncio.run(work())


def test_the_wait_for_a_thread_counts(database: Database) -> None:
    async def work() -> None:
        busy = [asyncio.create_task(database.run(ENDLESS, seconds=60)) for _ in range(2)]
        await asyncio.sleep(0)  # they have begun
        with pytest.raises(SearchTooSlow):
            await database.run("select 1", seconds=0.05)
        assert await database.write([("select 2", [])]) == [[(2,)]]  # has a thread of its own
        for task in busy:
            task.cancel()
        await asyncio.wait(busy)

    asyncio.run(work())


def test_memory_is_bounded(database: Database) -> None:
    """A query that does not fit and cannot be spilled is refused, and the next search has its memory."""
    with pytest.raises(SearchTooSlow):
        asyncio.run(database.run("select length(list(repeat('x', 1000) || range)) from range(1000000)", seconds=60))
    assert asyncio.run(database.run("select 1", seconds=30)) == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_text('/etc/hostname')",
        "select * from glob('/etc/*')",
        "copy (select 1) to '/tmp/written-by-duckdb'",
        "attach '/tmp/attached-by-duckdb'",
        "install httpfs",
        "load httpfs",
        "select * from read_parquet('https://127.0.0.1/x.parquet')",
        "set memory_limit = '10GB'",
        "set enable_external_access = true",
        "select * from os",  # a name of the interpreter
    ],
)
def test_nothing_else_can_be_reached(database: Database, statement: str) -> None:
    with pytest.raises(InvalidStatement):
        asyncio.run(database.run(statement, seconds=30))


def test_what_it_is_set_to(database: Database) -> None:
    names = ["memory_limit", "threads", "lock_configuration", "autoload_known_extensions", "enable_external_access"]
    settings = dict(
        asyncio.run(database.run("select name, value from duckdb_settings() where name in (select unnest(?))", [names]))
    )
    assert settings == {
        "memory_limit": "112.0 MiB", "threads": "2", "lock_configuration": "true",
        "autoload_known_extensions": "false", "enable_external_access": "false",
    }  # fmt: skip


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "other", "footer", "folder"])
def test_a_damaged_file_is_named(database: Database, tmp_path: Path, damage: str) -> None:
    async def work() -> None:
        folder = next(tmp_path.iterdir())
        good, _ = await write_names(folder, "good", {"/": [file(f"{number}") for number in range(1000)]})
        bad, _ = await write_names(folder, "bad", {"/": [file(f"{number}") for number in range(1000)]})
        spoil(bad, damage)
        for run in (database.run(COUNT, [[str(good), str(bad)]], seconds=30), database.write([(COUNT, [[str(bad)]])])):
            with pytest.raises(DamagedSegment) as caught:
                await run
            assert caught.value.data == bad.name
        assert await database.run(COUNT, [[str(good)]], seconds=30) == [(1000,)]

    asyncio.run(work())


def spoil(path: Path, damage: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        footer = content[:-8] + b"\xff\xff\xff\x7f" + content[-4:]
        kinds = {"empty": b"", "truncated": content[: len(content) // 2], "other": b"{}" * 50, "footer": footer}
        path.write_bytes(kinds[damage])


def test_a_statement_that_is_wrong_blames_no_file(database: Database, tmp_path: Path) -> None:
    async def work() -> None:
        good, _ = await write_names(next(tmp_path.iterdir()), "good", {"/": [file("a")]})
        with pytest.raises(InvalidStatement, match="nothing"):
            await database.run("select nothing from read_parquet(?)", [[str(good)]], seconds=30)

    asyncio.run(work())


def test_a_database_that_broke_is_replaced(tmp_path: Path) -> None:
    runner = ThreadRunner(tmp_path)
    database = Database(runner=runner)

    async def work() -> None:
        await database.change([("insert into hidden values (1, '/')", [])])
        before = database.generation
        runner.replace()
        assert database.generation != before
        assert await database.run("select * from hidden", seconds=30) == []

    asyncio.run(work())
    database.close()


def test_spilled_files_of_ended_processes_are_removed(database: Database, tmp_path: Path) -> None:
    folder = next(tmp_path.iterdir())
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    running_spill, left = folder / f"spill-{os.getpid()}-x", folder / f"spill-{ended.pid}-x"
    for path in (running_spill, left):
        path.mkdir()
        (path / "duckdb_temp_storage-0.tmp").touch()
    asyncio.run(database.run("select 1", seconds=30))
    assert running_spill.is_dir()
    assert not left.exists()


def test_the_library_is_not_imported_before_the_first_statement(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from mangrove.search.database import Database; made = Database();"
        "assert 'duckdb' not in sys.modules;"
        " print(asyncio.run(made.run('select 1', seconds=60))); made.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"MANGROVE_DATA": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[(1,)]\n", "")


def test_the_end_of_the_process_waits_for_no_statement(tmp_path: Path) -> None:
    made = Database(tmp_path)

    async def work() -> list[BaseException | list[Any]]:
        running = [asyncio.create_task(made.run(ENDLESS, seconds=60)) for _ in range(3)]
        running.append(asyncio.create_task(made.write([(ENDLESS, [])])))  # type: ignore[arg-type]
        await asyncio.sleep(0.05)  # at whichever point they are
        await asyncio.to_thread(made.close)
        return await asyncio.gather(*running, return_exceptions=True)

    ended = asyncio.run(work())
    assert {type(error) for error in ended} <= {SearchTooSlow, asyncio.CancelledError}
