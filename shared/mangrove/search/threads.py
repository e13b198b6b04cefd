"""Calls of the database in threads of this process, with limits for memory, threads and time.

DuckDB never loads an extension, reads and writes files in the folder of the index only, and accepts no setting after
its start. Its library is imported at the first statement.

Reads and changes share one database of this object. Writes have a database of their own: it returns its memory at the
end, and a fault in it affects nothing else.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.core.platform import platform
from mangrove.core.problems import Problem, SearchTooSlow
from mangrove.core.telemetry import log_warning
from mangrove.search.calls import (
    TABLES,
    CallKind,
    DamagedSegment,
    DatabaseCall,
    InvalidStatement,
    Rows,
    Statement,
)  # fmt: skip

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SEARCH_THREADS = 2
SEARCH_MEMORY, WRITE_MEMORY = "112MiB", "112MiB"
MAX_SPILL = "4GiB"
SPILL_PREFIX = "spill-"  # before the process id
CLOSE_POLL_SECONDS = 0.005
INTERRUPT_INTERVAL_SECONDS = 0.05  # an interrupt before the statement starts is lost
_PROBE = "select sum(hash(columns(*))) from read_parquet(?)"  # reads all of a file


class ThreadRunner:
    """Runs calls in threads of its own: two for reads, one for changes, one for writes.

    TABLES are created with it. A file of the index is a parameter: its path as `str`, or a list of paths.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._shared: DuckDBPyConnection | None = None
        self._opening = threading.Lock()
        self._running: set[_StatementCall] = set()
        self._threads = {
            CallKind.READ: ThreadPoolExecutor(SEARCH_THREADS, "search"),
            CallKind.CHANGE: ThreadPoolExecutor(1, "search tables"),
            CallKind.WRITE: ThreadPoolExecutor(1, "index"),
        }
        self.generation = 0

    async def run(self, call: DatabaseCall) -> list[Rows]:
        """Return the rows of each statement, as `CallRunner.run`."""
        loop = asyncio.get_running_loop()
        work = (_WriteCall if call.kind is CallKind.WRITE else _StatementCall)(self, call)
        future = loop.run_in_executor(self._threads[call.kind], work.run)
        try:
            done, _ = await asyncio.wait([future], timeout=call.seconds)
        except asyncio.CancelledError:
            _give_up(loop, future, work)
            raise
        if not done:
            _give_up(loop, future, work)
            raise SearchTooSlow
        return future.result()

    def connect(self) -> DuckDBPyConnection:
        """Return a new connection to the database of the searches."""
        with self._opening:
            if self._shared is None:
                self._shared = self.open(SEARCH_THREADS, SEARCH_MEMORY)
                self._shared.execute(TABLES)
            return self._shared.cursor()

    def open(self, threads: int, memory: str) -> DuckDBPyConnection:
        """Return a new database in memory that can read only the folder of the index."""
        import duckdb

        folder = (self._folder or platform().index_folder).absolute()
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads,
            "memory_limit": memory,
            "temp_directory": str(make_spill_folder(folder)),
            "max_temp_directory_size": MAX_SPILL,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        }
        made = duckdb.connect(":memory:", config=settings)
        quoted = str(folder).replace("'", "''")
        made.execute(f"set allowed_directories = ['{quoted}']")
        for setting in ("async_threads = 1", "enable_external_access = false", "lock_configuration = true"):
            made.execute(f"set {setting}")
        return made

    def replace(self) -> None:
        """Give the next statement a new database, after a fault in this one."""
        with self._opening:
            self._shared = None
            self.generation += 1
        log_warning("search database replaced")

    def note(self, call: _StatementCall, *, is_running: bool) -> None:
        """Count a call that has started or ended."""
        (self._running.add if is_running else self._running.discard)(call)

    def close(self) -> None:
        """Interrupt running statements, end the threads and release the memory."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        while self._running:
            for call in list(self._running):
                call.interrupt()
            time.sleep(CLOSE_POLL_SECONDS)
        for threads in self._threads.values():
            threads.shutdown()
        if self._shared is not None:
            self._shared.close()
            self._shared = None


def _give_up(loop: asyncio.AbstractEventLoop, future: asyncio.Future[list[Rows]], call: _StatementCall) -> None:
    """End a call soon for which no caller waits any more."""
    call.is_abandoned = True
    call.interrupt()
    if future.done():
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not report it
    else:
        loop.call_later(INTERRUPT_INTERVAL_SECONDS, _give_up, loop, future, call)


class _StatementCall:
    """Statements that run in a thread, one connection for all of them."""

    def __init__(self, owner: ThreadRunner, call: DatabaseCall) -> None:
        self.owner = owner
        self._statements = call.statements
        self._is_change = call.kind is CallKind.CHANGE
        self._connection: DuckDBPyConnection | None = None
        self._using = threading.Lock()  # a closed connection must not be interrupted
        self._is_interrupted = False
        self.is_abandoned = False  # no caller waits for the result

    def open(self) -> DuckDBPyConnection:
        """Return a connection for this call alone."""
        return self.owner.connect()

    def interrupt(self) -> None:
        """Interrupt the running statement; a statement that has not started is not run. Any thread may call it."""
        self._is_interrupted = True
        with self._using:
            if self._connection is not None:
                self._connection.interrupt()

    def run(self) -> list[Rows]:
        """Return the rows of each statement."""
        try:
            return self._run()
        except Exception:  # any error belongs to the caller
            if self.is_abandoned:
                return []
            raise

    def _run(self) -> list[Rows]:
        import duckdb

        self.owner.note(self, is_running=True)
        try:
            with closing(self.open()) as connection:
                return self._run_all(connection)
        except duckdb.InterruptException as error:
            raise SearchTooSlow from error
        except duckdb.OutOfMemoryException as error:
            raise self.make_memory_problem() from error
        except duckdb.Error as error:
            self._find_damage(error)
            raise InvalidStatement(str(error)) from error
        finally:
            self.owner.note(self, is_running=False)

    def make_memory_problem(self) -> Problem:
        """Return the problem for full memory, or a full disk for spilled data."""
        return SearchTooSlow()

    def replace_broken(self) -> None:
        """Take the database of this call out of use."""
        self.owner.replace()

    def _run_all(self, connection: DuckDBPyConnection) -> list[Rows]:
        self._connection = connection
        try:
            if self._is_change:
                connection.begin()
            results = [self._run_one(connection, statement) for statement in self._statements]
            if self._is_change:
                connection.commit()
            return results
        finally:
            with self._using:
                self._connection = None

    def _run_one(self, connection: DuckDBPyConnection, statement: Statement) -> Rows:
        if self._is_interrupted:
            raise SearchTooSlow
        return connection.execute(statement[0], statement[1]).fetchall()

    def _find_damage(self, error: Exception) -> None:
        """Raise DamagedSegment if one of the files cannot be read. A truncated file can lead to any error."""
        import duckdb

        if isinstance(error, duckdb.InternalError | duckdb.FatalException):
            self.replace_broken()
        for path in dict.fromkeys(_find_files(self._statements)):
            with self.owner.open(1, WRITE_MEMORY) as probe:  # in a database of its own, which may crash
                try:
                    probe.execute(_PROBE, [path]).fetchall()
                except duckdb.Error:
                    name = os.path.basename(path)
                    raise DamagedSegment(f"{DamagedSegment.text}: {name}", data=name) from error


class _WriteCall(_StatementCall):
    """A call with a database of its own, which ends with the call."""

    def open(self) -> DuckDBPyConnection:
        return self.owner.open(1, WRITE_MEMORY)

    def make_memory_problem(self) -> Problem:
        return Problem("the index exceeds its limit of memory or disk space")

    def replace_broken(self) -> None:
        """Do nothing: the database ends with this call."""


def _find_files(statements: Sequence[Statement]) -> list[str]:
    """Return the Parquet files among the parameters, without files that are written."""
    files: list[str] = []
    for text, parameters in statements:
        lists = [value if isinstance(value, list | tuple) else [value] for value in parameters]
        paths = [value for listed in lists for value in listed if isinstance(value, str) and value.endswith(".parquet")]
        files += paths[:-1] if text.startswith("copy") else paths
    return files


def make_spill_folder(folder: Path) -> Path:
    """Return a folder of this process for spilled data, after removing those of ended processes.

    DuckDB creates and removes it on demand.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.glob(f"{SPILL_PREFIX}*"):
        if not _is_running(path.name.removeprefix(SPILL_PREFIX).partition("-")[0]):
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mktemp(prefix=f"{SPILL_PREFIX}{os.getpid()}-", dir=folder))  # noqa: S306  a folder of mode 700


def _is_running(process_id: str) -> bool:
    try:
        os.kill(int(process_id), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass  # of another user
    return True
