"""The threads of one storage: a call that blocks, for however long, delays no other storage and no shutdown.

A call that hangs in the kernel cannot be interrupted, only given up: its caller gets Unreachable, and its thread is
replaced. The one system call that hung may still complete when the storage answers again, so a rename or the last step
of an upload that was answered with Unreachable may have been done after all: then the whole file exists. A call that
has not started when it is given up never starts.

A call is given up if its thread stood still for STILL_TIMEOUT_SECONDS, that is, if the kernel did not run it. A listing
of a million names, the removal of a large tree or a copy to a slow disk make progress, however long they take. While a
call stands still, a probe asks the storage for a sign of life. As long as the probe hangs, further calls are refused
immediately; when it ends they are accepted again. The time in which the whole process stood still does not count.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.problems import Unreachable
from mangrove.core.telemetry import log_event

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
MAX_THREADS = 16  # concurrent, unless a storage uses more
MAX_LOST_THREADS = 48  # that may hang in addition
IDLE_TIMEOUT_SECONDS = 20.0  # after which a thread without work ends
CHECK_INTERVAL_SECONDS = 1.0
PROBE_AFTER_SECONDS = 2.0  # for which a call stands still
PROBE_TIMEOUT_SECONDS = 4.0  # for the probe
STILL_TIMEOUT_SECONDS = 7.0  # for which a call may stand still
LONG_STILL_TIMEOUT_SECONDS = 600.0  # the same if the call has announced it and the storage answers the probe


class _Call:
    """A function that is to run in a thread. `future` is None if no caller waits and it has to run nevertheless."""

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop | None) -> None:
        self._function: Callable[[], Any] | None = function
        self._loop = loop
        self.future: asyncio.Future[Any] | None = None if loop is None else loop.create_future()
        self.may_wait_long = False
        self.is_given_up = False
        self._thread = 0  # the kernel's number of it
        self._mark = b""
        self._still_since = time.monotonic()

    def execute(self) -> None:
        """Run the function in this thread and pass on its result."""
        function, self._function = self._function, None
        if function is None or (self.future is not None and self.future.done()):
            return  # no caller waits any more
        self._still_since, self._thread = time.monotonic(), threading.get_native_id()
        result: Any = None
        error: BaseException | None = None
        try:
            result = function()
        except BaseException as raised:  # any error belongs to the caller
            error = raised
        function = None  # its references are released in this thread
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:
            pass  # the loop is closed: no caller waits any more

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future is None or self.future.done():
            return  # cancelled or given up
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def measure_stillness(self, now: float) -> float:
        """Return the seconds since the thread was last seen to move; those since the call started if the system
        does not report it.
        """
        mark = _read_mark(self._thread)
        if mark != self._mark:
            self._mark, self._still_since = mark, now
        return now - self._still_since

    def excuse(self, seconds: float, now: float) -> None:
        """Leave out seconds in which the whole process stood still."""
        self._still_since = min(self._still_since + seconds, now)

    @property
    def patience(self) -> float:
        """Return the seconds that it may stand still while the storage answers the probe."""
        if not self._mark:
            return math.inf
        return LONG_STILL_TIMEOUT_SECONDS if self.may_wait_long else STILL_TIMEOUT_SECONDS

    def give_up(self) -> None:
        """Fail for the caller, whatever the result of the function is."""
        self.is_given_up = True
        self._settle(None, Unreachable())


def _read_mark(thread: int) -> bytes:
    """Return a value that changes whenever the kernel runs a thread; empty if the kernel does not report it."""
    try:
        return Path(f"/proc/self/task/{thread}/schedstat").read_bytes()
    except OSError:
        return b""


class _Worker(threading.Thread):
    """A thread that runs calls until it has been idle for a while.

    As a daemon it does not delay the end of the process.
    """

    def __init__(self, pool: _Pool) -> None:
        super().__init__(name=pool.name, daemon=True)
        self._pool = pool
        self.call: _Call | None = None

    def run(self) -> None:
        while (call := self._pool.take()) is not None:
            self.call = call
            call.execute()
            self._pool.end(call)
            self.call = call = None


def _get_current_call() -> _Call | None:
    thread = threading.current_thread()
    return thread.call if isinstance(thread, _Worker) else None


def allow_long_wait() -> _LongWait:
    """Return a section of a call in which it may stand still for minutes, since one system call does all the work:
    `fsync` of gigabytes returns when they are written, `copy_file_range` on some file systems when the server has
    copied.
    """
    return _LongWait(_get_current_call())


class _LongWait:
    """The section of a call; None outside of one. It is a class because small files enter one each."""

    __slots__ = ("_call",)

    def __init__(self, call: _Call | None) -> None:
        self._call = call

    def __enter__(self) -> None:
        if self._call is not None:
            self._call.may_wait_long = True

    def __exit__(self, *_: object) -> None:
        if self._call is not None:
            self._call.may_wait_long = False


def is_given_up() -> bool:
    """True if the call of this thread was given up: it must not go on."""
    call = _get_current_call()
    return call is not None and call.future is not None and call.is_given_up


class _Pool:
    """Threads that start with calls and end when they are idle; those that hang are replaced."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self._most = threads
        self._running: set[_Call] = set()
        self._waiting: deque[_Call] = deque()
        self._threads = 0
        self._idle = 0
        self._lost = 0  # threads that hang in a call that was given up
        self._changed = threading.Condition()  # its lock may be taken again by a destructor that closes a file

    @property
    def has_lost_all(self) -> bool:
        """True if so many threads hang that no further one is started."""
        return self._lost >= MAX_LOST_THREADS

    def submit(self, call: _Call) -> None:
        """Run a call as soon as there is a thread for it."""
        with self._changed:
            self._waiting.append(call)
            self._staff()

    def _staff(self) -> None:
        """Provide a thread for the waiting calls."""
        if len(self._waiting) > self._idle and self._threads < self._most + min(self._lost, MAX_LOST_THREADS):
            self._threads += 1
            _Worker(self).start()
        else:
            self._changed.notify()

    def take(self) -> _Call | None:
        """Return the next call for a thread; None if the thread is not needed any more."""
        with self._changed:
            if not self._waiting:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting, IDLE_TIMEOUT_SECONDS)
                self._idle -= 1
            if not self._waiting or self._threads > self._most + self._lost:
                self._threads -= 1
                return None
            call = self._waiting.popleft()
            self._running.add(call)
            return call

    def end(self, call: _Call) -> None:
        """Record that a call has ended; its thread is free."""
        with self._changed:
            self._running.remove(call)
            self._lost -= call.is_given_up

    def get_running(self) -> list[_Call]:
        """Return the calls that have a thread and were not given up."""
        with self._changed:
            return [call for call in self._running if not call.is_given_up]

    def has_calls(self) -> bool:
        """True if any call runs or waits."""
        return bool(self._running or self._waiting)

    def give_up(self, call: _Call) -> None:
        """Fail a running call, and replace its thread."""
        with self._changed:
            if call in self._running:
                call.give_up()
                self._lost += 1
                self._staff()

    def give_up_waiting(self) -> None:
        """Fail the calls that have no thread yet, except those that have to run."""
        with self._changed:
            for call in self._waiting:
                if call.future is not None:
                    call.give_up()
            self._waiting = deque(call for call in self._waiting if call.future is None)


class _Probe:
    """A probe that asks a storage for a sign of life, one question at a time, in a thread of its own."""

    def __init__(self, name: str, ask: Callable[[], object]) -> None:
        self._name = name
        self._ask = ask
        self._asked_at = 0.0  # the time, while the answer is awaited
        self._hung = -1.0  # the value of `_asked_at` when calls were given up because of the missing answer

    @property
    def is_hung(self) -> bool:
        """True if calls were given up because of the answer, which is still awaited."""
        return self._hung == self._asked_at

    def ask(self) -> None:
        """Ask, unless an answer is awaited already."""
        if not self._asked_at:
            self._asked_at = time.monotonic()
            threading.Thread(target=self._run, name=f"{self._name} probe", daemon=True).start()

    def _run(self) -> None:
        try:
            self._ask()
        except Exception:  # any error is an answer too: the next call gets its own
            pass
        was_hung, self._asked_at = self.is_hung, 0.0
        if was_hung:
            log_event("storage answers again", storage=self._name)

    def is_overdue(self, now: float) -> bool:
        """True if the answer has been awaited for PROBE_TIMEOUT_SECONDS."""
        asked_at = self._asked_at
        return asked_at > 0.0 and now - asked_at >= PROBE_TIMEOUT_SECONDS

    def report_hung(self) -> None:
        """Record that calls were given up because of the missing answer."""
        if not self.is_hung:
            self._hung = self._asked_at or self._hung
            log_event("storage does not answer", storage=self._name)


class StorageThreads:
    """Runs blocking calls of one storage.

    `probe` is a blocking function that asks the storage itself, not a cache of the system, for little data; without it
    a call is judged only by its own progress. `threads`: the number of concurrent calls.
    """

    def __init__(self, name: str, probe: Callable[[], object] = bool, threads: int = MAX_THREADS) -> None:
        self._pool = _Pool(name, threads)
        self._probe = _Probe(name, probe)
        self._watching: asyncio.AbstractEventLoop | None = None
        self._checked_at = 0.0

    async def run(self, function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        """Run a blocking function in a thread, in the context of the caller.

        Raise Unreachable if it hangs, and immediately while the storage hangs.
        """
        return await self.start(function, *args)

    def start(self, function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> asyncio.Future[Result]:
        """Run as `run`, without waiting for the result."""
        if self._probe.is_hung or self._pool.has_lost_all:
            raise Unreachable
        loop = asyncio.get_running_loop()
        call = _Call(partial(copy_context().run, function, *args), loop)
        assert call.future is not None
        self._pool.submit(call)
        if self._watching is not loop:
            self._watching, self._checked_at = loop, time.monotonic()
            loop.call_later(CHECK_INTERVAL_SECONDS, self._watch, loop)
        return call.future

    async def run_to_completion(self, function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        """Run as `run`. On cancellation, first wait for the function to end or to be given up."""
        return await finish_despite_cancel(self.start(function, *args))

    def run_later(self, function: Callable[[Unpack[Arguments]], object], *args: *Arguments) -> None:
        """Run a blocking function when there is a thread for it, also while the storage hangs, without waiting: so
        are the resources of a call closed that was given up. Any thread may call it, and a destructor.
        """
        self._pool.submit(_Call(partial(function, *args), None))

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check every CHECK_INTERVAL_SECONDS for calls that hang, as long as there are calls."""
        if self._watching is not loop:
            return
        if not self._pool.has_calls():
            self._watching = None
            return
        now = time.monotonic()
        running = self._pool.get_running()
        self._excuse_late_check(running, now)
        hanging = [call for call in running if self._hangs(call, now)]
        if hanging and self._probe.is_overdue(now):
            self._probe.report_hung()
        if self._probe.is_hung or self._pool.has_lost_all:
            self._pool.give_up_waiting()  # before a thread is replaced: none of them starts
        for call in hanging:
            self._pool.give_up(call)
        loop.call_later(CHECK_INTERVAL_SECONDS, self._watch, loop)

    def _excuse_late_check(self, running: list[_Call], now: float) -> None:
        """Leave out the delay of a check that is late by more than a check interval, as the threads stood still too."""
        delay, self._checked_at = now - self._checked_at - CHECK_INTERVAL_SECONDS, now
        if delay > CHECK_INTERVAL_SECONDS:
            for call in running:
                call.excuse(delay, now)

    def _hangs(self, call: _Call, now: float) -> bool:
        still = call.measure_stillness(now)
        if still >= PROBE_AFTER_SECONDS:
            self._probe.ask()
        return still >= (STILL_TIMEOUT_SECONDS if self._probe.is_overdue(now) else call.patience)
