"""A service in several processes. They are forked from this process, which restarts them when they die and ends them
with itself.

This process answers no requests. It forks while its own thread supervises the records engine. No child uses the locks
that this thread may hold at that moment. It also forks the process of the search index, when another process wants to
connect to it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import math
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mangrove.core import runtime, unix_sockets
from mangrove.core.platform import platform
from mangrove.core.runtime import Kept, Runtime
from mangrove.core.shared_memory import Activity, SharedMemory, activity_times, measure
from mangrove.core.telemetry import log_exception, log_warning
from mangrove.search import process as index_process
from mangrove.search.database import Database
from mangrove.search.index import SearchIndex
from mangrove.standalone.figures import name_index_process
from mangrove.standalone.leader import TaskLeader
from mangrove.standalone.namespace import make_start
from mangrove.standalone.stopping import CHILDREN_SECONDS, StopRequest

MAX_DEFAULT_PROCESSES = 4
MIN_FREE_MEMORY_BYTES = 1 << 30  # free bytes, required for more than one process
INDEX_SOCKET = "database.sock"  # in the folder of the index
POLL_INTERVAL_SECONDS = 0.05  # between two checks whether one has ended
STABLE_SECONDS = 5.0  # a process that ran for so long is restarted immediately
FIRST_DELAY, LAST_DELAY = 0.1, 10.0  # delay before one that ran for a shorter time is restarted, in seconds


@dataclass(slots=True)
class _Child:
    """A process of the service.

    `pid`: None while it is not running; `starts_at`: the earliest time of its next start (monotonic).
    """

    pid: int | None = None
    began: float = 0.0
    starts_at: float = 0.0
    delay: float = 0.0

    @property
    def may_start(self) -> bool:
        """True if it does not run, and its delay is over."""
        return self.pid is None and time.monotonic() >= self.starts_at

    def start(self, work: Callable[[], None]) -> None:
        """Fork it. It does the work and ends."""
        die_with_parent = make_start()
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid:
            return
        try:
            if die_with_parent is not None:
                die_with_parent()
            work()
            os._exit(0)
        except BaseException:  # no code of the parent may run here, whatever happens
            log_exception("process failed")
        os._exit(1)

    def look(self) -> int | None:
        """Return its status if it has ended since the last call. Delay its next start if it ran for a short time."""
        if self.pid is None:
            return None
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return None
        self.pid = None
        now = time.monotonic()
        is_stable = now - self.began > STABLE_SECONDS
        self.delay = 0.0 if is_stable else min(max(FIRST_DELAY, 2 * self.delay), LAST_DELAY)
        self.starts_at = now + self.delay
        return os.waitstatus_to_exitcode(status)


def choose_count() -> int:
    """Return the number of processors, at most MAX_DEFAULT_PROCESSES; 1 if memory is short."""
    return (
        min(len(os.sched_getaffinity(0)), MAX_DEFAULT_PROCESSES) if find_free_memory() >= MIN_FREE_MEMORY_BYTES else 1
    )


def find_free_memory(root: Path = Path("/")) -> float:
    """Return the bytes of available memory, if the system reports them."""
    free = [math.inf]
    with suppress(OSError, ValueError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        free += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # "max" is not a number: the container has no limit
        group = root / "sys/fs/cgroup"
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(free)


class Processes:
    """The processes of the service.

    Each runs `serve` in a runtime of its own, which has the `shared` slots and caches of the present one. `serve`
    returns when the process should end. Its argument, `leader`, elects the process that runs the tasks. They accept
    connections of `listener`, the process of the search index does not. A request to `stop` that arrives during a fork
    is obeyed by `serve`.
    """

    def __init__(
        self,
        leader: TaskLeader,
        listener: socket.socket,
        serve: Callable[[TaskLeader], None],
        shared: Iterable[Kept],
        stop: StopRequest,
    ) -> None:
        self._listener = listener
        self._serve = serve
        self._shared = tuple(shared)
        self._stop = stop
        count = leader.process_count
        self._memory = memoryview(mmap.mmap(-1, measure(count + 1)))
        self._leader = leader
        self._children = [_Child() for _ in range(count)]
        self._index_folder = platform().index_folder
        self._index_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._index_path = self._index_folder / INDEX_SOCKET
        self._index_listener = unix_sockets.listen(self._index_path)
        self._index = _Child()
        runtime.put(SharedMemory, self._share_memory(count))

    def _share_memory(self, column: int) -> SharedMemory:
        return SharedMemory(self._memory, self._leader.process_count + 1, column)

    def run(self) -> None:
        """Keep them running until this process is asked to end; then end them."""
        self._stop.defer()
        gc.collect()
        trim()
        for activity in (Activity.TASKS, Activity.SCHEDULE):
            activity_times().record(activity)  # an own pool, because taking over the work takes them some time
        gc.freeze()  # no collection in a child writes to the memory that it shares with the others
        try:
            while not self._stop.is_made:
                for index, child in enumerate(self._children):
                    if child.may_start:
                        child.start(partial(self._run_child, index))
                self._wait_for_search()
                for index, child in enumerate(self._children):
                    self._look(index, child)
                self._index.look()
        finally:
            self._end()

    def reload(self) -> None:
        """Make all processes read the configuration again."""
        self._send(signal.SIGHUP)

    def _wait_for_search(self) -> None:
        """Wait for POLL_INTERVAL_SECONDS. Start the process of the index if a process wants to connect to it."""
        if not self._index.may_start:
            time.sleep(POLL_INTERVAL_SECONDS)
        elif select.select([self._index_listener], [], [], POLL_INTERVAL_SECONDS)[0]:
            self._index.start(self._run_index)

    def _run_child(self, index: int) -> None:
        signal.signal(signal.SIGHUP, lambda *_: None)  # until its gateway handles it, and reads the configuration again
        with runtime.use(runtime.current().keep(*self._shared)):
            platform().process_count = self._leader.process_count
            runtime.put(SharedMemory, self._share_memory(index))
            runtime.put(SearchIndex, SearchIndex(Database(runner=index_process.ProcessRunner(self._index_path))))
            self._serve(self._leader)

    def _run_index(self) -> None:
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._listener.close()
        name_index_process()
        with runtime.use(Runtime()):
            asyncio.run(index_process.serve(self._index_listener, self._index_folder))

    def _look(self, index: int, child: _Child) -> None:
        """Record that a child has ended."""
        status = child.look()
        if status is not None and not self._stop.is_made:
            self._share_memory(index).forget_process()
            log_warning("process ended; restarting", status=status, seconds=child.delay)

    def _end(self) -> None:
        self._send(signal.SIGTERM)
        end = time.monotonic() + CHILDREN_SECONDS
        while any(child.pid for child in self._children) and time.monotonic() < end:
            time.sleep(POLL_INTERVAL_SECONDS)
            for child in self._children:
                if child.pid is not None and os.waitpid(child.pid, os.WNOHANG)[0]:
                    child.pid = None
        self._send(signal.SIGKILL)
        if self._index.pid is not None:
            os.kill(self._index.pid, signal.SIGKILL)
        with suppress(OSError):  # the data directory may have become read-only
            self._index_path.unlink()

    def _send(self, which: signal.Signals) -> None:
        for child in self._children:
            if child.pid is not None:
                os.kill(child.pid, which)


ARENAS = 2  # of the allocator: with one per few threads, freed blocks of 1 MiB leave each of them fragmented
M_ARENA_MAX = -8
TRIM_SECONDS = 30.0


def limit_arenas() -> None:
    """Make all threads share ARENAS. Call it before the first thread starts."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)


def trim() -> None:
    """Return free pages to the system."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


async def trim_regularly() -> None:
    """Return free pages to the system every TRIM_SECONDS, in a thread, since it takes some milliseconds."""
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim)
