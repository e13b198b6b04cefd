"""The database of the index in a process of its own: it fails like the one in threads, and its end loses nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mangrove.core import runtime, unix_sockets
from mangrove.core.platform import platform
from mangrove.core.problems import SearchTooSlow
from mangrove.search import process as index_process
from mangrove.search import words
from mangrove.search.calls import DamagedSegment, InvalidStatement, TablesLost
from mangrove.search.database import Database
from mangrove.search.find import find
from mangrove.search.index import SearchIndex
from mangrove.search.process import ProcessRunner
from mangrove.search.query import Filters
from tests.unit.search.index_files import file, use_index, write_names
from tests.unit.search.search_env import SearchEnv

ENDLESS = "select sum(hash(range)) from range(1000000000000)"
COUNT = "select count(*) from read_parquet(?)"
TIMEOUT_SECONDS = 30.0
CODE = (
    "import asyncio, socket, sys; from pathlib import Path; from mangrove.search.process import serve;"
    "asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), float(sys.argv[3])))"
)


class IndexProcess:
    """A process of the index in `folder`, which is started again with `start`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder.parent / "database.sock"
        self._listener = unix_sockets.listen(self.path)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, idle_seconds: float = 60.0) -> subprocess.Popen[bytes]:
        number = self._listener.fileno()
        command = [sys.executable, "-c", CODE, str(number), str(self._folder), str(idle_seconds)]
        started = subprocess.Popen(command, pass_fds=[number])
        self._running.append(started)
        return started

    def start_ended(self, idle_seconds: float) -> None:
        """Start the process unless it runs."""
        if not self._running or self._running[-1].poll() is not None:
            self.start(idle_seconds)

    def wait(self, seconds: float) -> int:
        """Return the exit status of the process once it has ended."""
        return self._running[-1].wait(seconds)

    def close(self) -> None:
        for started in self._running:
            started.kill()
            started.wait()
        self._listener.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[IndexProcess]:
    with use_index(tmp_path / "index"):
        made = IndexProcess(tmp_path / "index")
        yield made
        made.close()


def run(process: IndexProcess, work: Callable[[Database], Awaitable[None]]) -> None:
    async def connected() -> None:
        database = Database(runner=ProcessRunner(process.path))
        await work(database)
        database.close()

    asyncio.run(connected())


def test_rows_parameters_and_tables_of_each_connection(process: IndexProcess) -> None:
    process.start()

    async def work(database: Database) -> None:
        value = float("nan")
        text = "'; drop table hidden; --\n\x1a\U0001f600"
        [(same, number, real, nothing)] = await database.run(
            "select ?, ?, ?, ?", [text, 1 << 40, value, None], seconds=TIMEOUT_SECONDS
        )
        assert (same, number, nothing) == (text, 1 << 40, None) and real != real
        await database.change([("insert into hidden values (?, ?)", (1, "/a"))], seconds=TIMEOUT_SECONDS)
        assert await database.run("select * from hidden") == [(1, "/a")]
        assert await database.write([("select 1", []), ("select 2", [])]) == [[(1,)], [(2,)]]
        other = Database(runner=ProcessRunner(process.path))
        assert await other.run("select * from hidden", seconds=TIMEOUT_SECONDS) == []
        other.close()

    run(process, work)


def test_the_largest_change(process: IndexProcess) -> None:
    process.start()
    names = [f"{number:06}".ljust(255, "x") for number in range(200_000)]

    async def work(database: Database) -> None:
        insert = "insert into hidden_names select 1, '/', unnest(?::varchar[])"
        await database.change([(insert, [names])], seconds=TIMEOUT_SECONDS)
        rows = await database.run("select name from hidden_names order by name", seconds=TIMEOUT_SECONDS)
        assert [name for (name,) in rows] == names

    run(process, work)


def test_failures_are_those_of_threads(process: IndexProcess, tmp_path: Path) -> None:
    process.start()

    async def work(database: Database) -> None:
        with pytest.raises(InvalidStatement, match="nothing"):
            await database.run("select nothing", seconds=TIMEOUT_SECONDS)
        assert not await database.accepts("select regexp_matches('a', '(')", seconds=TIMEOUT_SECONDS)
        with pytest.raises(InvalidStatement):
            await database.run("select * from read_text('/etc/hostname')", seconds=TIMEOUT_SECONDS)
        with pytest.raises(SearchTooSlow):
            await database.run(ENDLESS, seconds=0.1)
        names, _ = await write_names(tmp_path / "index", "bad", {"/": [file(f"{number}") for number in range(1000)]})
        names.write_bytes(names.read_bytes()[:-8])
        with pytest.raises(DamagedSegment) as caught:
            await database.run(COUNT, [[str(names)]], seconds=TIMEOUT_SECONDS)
        assert caught.value.data == names.name
        assert await database.run("select 1", seconds=TIMEOUT_SECONDS) == [(1,)]

    run(process, work)


def test_a_caller_who_leaves_frees_a_thread(process: IndexProcess) -> None:
    process.start()

    async def work(database: Database) -> None:
        for _ in range(2):
            leaving = [asyncio.create_task(database.run(ENDLESS, seconds=60)) for _ in range(3)]
            await asyncio.sleep(0.02)
            for task in leaving:
                task.cancel()
            await asyncio.wait(leaving)
        assert await database.run("select 1", seconds=TIMEOUT_SECONDS) == [(1,)]

    run(process, work)


def test_the_end_of_the_process_is_noticed_and_tables_are_empty_then(process: IndexProcess) -> None:
    first = process.start()

    async def work(database: Database) -> None:
        await database.change([("insert into hidden values (1, '/a')", [])], seconds=TIMEOUT_SECONDS)
        generation = database.generation
        waiting = asyncio.create_task(database.run(ENDLESS, seconds=60))
        await asyncio.sleep(0.1)
        first.kill()
        with pytest.raises(TablesLost):
            await waiting
        assert database.generation != generation
        process.start()
        assert await database.run("select * from hidden", seconds=TIMEOUT_SECONDS) == []

    run(process, work)


def test_it_ends_when_nobody_searches(process: IndexProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_process, "GRACE_SECONDS", TIMEOUT_SECONDS)

    async def ask(database: Database, number: int) -> None:
        """Ask, and start the process again whenever it has ended, as the service does."""
        while True:
            asking = asyncio.create_task(database.run(f"select {number}", seconds=TIMEOUT_SECONDS))
            while not (await asyncio.wait([asking], timeout=0.05))[0]:
                process.start_ended(idle_seconds=0.5)
            with suppress(TablesLost):  # its end may not have been noticed yet
                assert asking.result() == [(number,)]
                return

    async def work(database: Database) -> None:
        await ask(database, 1)
        assert await asyncio.to_thread(process.wait, TIMEOUT_SECONDS) == 0
        await ask(database, 2)
        await ask(database, 3)

    run(process, work)


def test_no_process_means_a_clear_failure(process: IndexProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_process, "GRACE_SECONDS", 0.1)

    async def work(database: Database) -> None:
        began = time.monotonic()
        with pytest.raises(SearchTooSlow):
            await database.run("select 1", seconds=0.1)
        assert time.monotonic() - began < TIMEOUT_SECONDS

    run(process, work)


def test_a_search_starts_again_when_the_process_ends(searched: SearchEnv) -> None:
    """The searches have the time in which the process starts, which is long on a loaded computer."""
    searched.tree.mount_disk("/disk", "one/red.txt", "two/red shoe.txt")
    folder = platform().index_folder
    folder.mkdir()
    process = IndexProcess(folder)
    runtime.put(SearchIndex, SearchIndex(Database(runner=ProcessRunner(process.path))))
    processes = [process.start()]
    searched.index()
    access = searched.tree.access("/")

    async def search() -> list[str]:
        page = await find(access, Filters(words.parse("red")), 0, 10)
        return [str(hit.parent / hit.name) for hit in page.hits]

    async def work() -> None:
        expected = await search()
        assert len(expected) == 2
        for delay in (0.0, 0.002, 0.005, 0.01, 0.02):
            current = processes[-1]
            running = asyncio.create_task(search())
            await asyncio.sleep(delay)
            current.kill()
            processes.append(process.start())
            assert await running == expected
            assert await search() == expected

    searched.tree.run(work())
    process.close()
