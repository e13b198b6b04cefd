"""The threads of a storage: what hangs in one of them is given up, and only that."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mangrove.core.problems import Unreachable
from mangrove.drivers import threads
from mangrove.drivers.threads import StorageThreads, allow_long_wait, is_given_up

DEADLINE = 120.0  # for what has to come true


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {
        "CHECK_INTERVAL": 0.02, "PROBE_AFTER": 0.1, "PROBE_TIMEOUT": 0.1, "STILL_TIMEOUT": 1.0,
        "LONG_STILL_TIMEOUT": 600.0, "IDLE_TIMEOUT": 0.1,
    }  # fmt: skip
    for name, seconds in times.items():
        monkeypatch.setattr(threads, f"{name}_SECONDS", seconds)


class Storage:
    """A storage whose calls hang on request, and the number of its probes."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.back.set()
        self.probed = 0
        self.begun = 0
        self.ended = list[bool]()

    def probe(self) -> None:
        self.probed += 1
        self.back.wait()

    def call(self) -> str:
        self.begun += 1
        self.back.wait()
        self.ended.append(is_given_up())
        return "done"


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.back.set()


async def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def count_threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def test_results_and_failures_come_from_the_thread() -> None:
    async def go() -> None:
        pool = StorageThreads("plain")
        assert await pool.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await pool.run(divmod, 7, 0)
        assert await pool.run(threading.get_ident) != threading.get_ident()

    run(go())


def test_threads_are_bounded_and_end_when_they_are_idle() -> None:
    async def go() -> None:
        pool = StorageThreads("bounded")
        together = threading.Barrier(threads.MAX_THREADS)
        await asyncio.gather(*(pool.run(together.wait) for _ in range(3 * threads.MAX_THREADS)))
        assert count_threads("bounded") <= threads.MAX_THREADS
        await wait_until(lambda: count_threads("bounded") == 0)
        assert await pool.run(int) == 0

    run(go())


def test_no_thread_of_a_storage_holds_up_the_end_of_the_process() -> None:
    async def go() -> None:
        assert await StorageThreads("daemon").run(lambda: threading.current_thread().daemon)

    run(go())


def test_hanging_call_is_given_up_and_others_refused_until_answer(storage: Storage) -> None:
    async def go() -> None:
        pool = StorageThreads("hanging", storage.probe)
        storage.back.clear()
        calls = [asyncio.ensure_future(pool.run(storage.call)) for _ in range(100)]
        answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), DEADLINE)
        assert {type(answer) for answer in answers} == {Unreachable}
        for _ in range(100):
            with pytest.raises(Unreachable):
                await pool.run(pytest.fail)
        assert storage.probed == 1
        assert count_threads("hanging") <= 2 * threads.MAX_THREADS
        storage.back.set()
        await wait_until(lambda: len(storage.ended) == threads.MAX_THREADS)
        assert all(storage.ended), "a call knows that it was given up"
        while True:
            try:
                assert await pool.run(storage.call) == "done"
                break
            except Unreachable:
                await asyncio.sleep(0.01)

    run(go())


def test_calls_that_were_given_up_before_they_began_never_begin(storage: Storage) -> None:
    async def go() -> None:
        pool = StorageThreads("waiting", storage.probe)
        storage.back.clear()
        calls = [asyncio.ensure_future(pool.run(storage.call)) for _ in range(threads.MAX_THREADS + 20)]
        await asyncio.wait(calls)
        storage.back.set()
        await wait_until(lambda: count_threads("waiting") == 0)
        assert len(storage.ended) == threads.MAX_THREADS

    run(go())


def test_progressing_call_is_not_given_up(storage: Storage) -> None:
    async def go() -> None:
        pool = StorageThreads("moving", storage.probe)
        storage.back.clear()

        def work() -> str:
            end = time.monotonic() + 2 * threads.STILL_TIMEOUT_SECONDS
            while time.monotonic() < end:
                time.sleep(0.01)
            return "all of it"

        assert await pool.run(work) == "all of it"

    run(go())


def test_time_in_which_the_process_stood_still_does_not_count(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "STILL_TIMEOUT_SECONDS", DEADLINE)
    jump, checks = 0.0, 0

    def read_clock() -> float:
        nonlocal checks
        checks += 1
        return time.monotonic() + jump

    monkeypatch.setattr(threads, "time", SimpleNamespace(monotonic=read_clock))

    async def go() -> None:
        nonlocal jump
        storage.back.clear()
        call = asyncio.ensure_future(StorageThreads("stopped").run(storage.call))
        await wait_until(lambda: storage.begun == 1)
        jump, before = 2 * DEADLINE, checks
        await wait_until(lambda: checks > before + 5)
        assert not call.done()
        storage.back.set()
        assert await call == "done"

    run(go())


def test_call_waiting_for_disk_is_kept_while_probe_answers(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        monkeypatch.setattr(threads, "PROBE_TIMEOUT_SECONDS", DEADLINE)  # the storage answers
        pool = StorageThreads("flushing", storage.probe)
        written = threading.Event()

        def flush() -> bool:
            with allow_long_wait():
                return written.wait(DEADLINE)

        flushing = asyncio.ensure_future(pool.run(flush))
        with pytest.raises(Unreachable):
            await pool.run(written.wait)  # as long, and not announced
        await wait_until(lambda: storage.probed > 3)
        assert not flushing.done()
        written.set()
        assert await flushing

    run(go())


def test_a_call_that_waits_for_a_disk_is_given_up_with_the_storage(storage: Storage) -> None:
    async def go() -> None:
        pool = StorageThreads("lost", storage.probe)
        storage.back.clear()

        def flush() -> None:
            with allow_long_wait():
                storage.back.wait()

        with pytest.raises(Unreachable):
            await pool.run(flush)

    run(go())


def test_a_failing_probe_is_an_answer() -> None:
    async def go() -> None:
        gone, back = threading.Event(), threading.Event()

        def fail() -> None:
            gone.wait()
            raise OSError

        pool = StorageThreads("broken", fail)
        with pytest.raises(Unreachable):
            await pool.run(back.wait)
        gone.set()
        back.set()
        await wait_until(lambda: count_threads("broken probe") == 0)
        assert await pool.run(int) == 0

    run(go())


def test_the_threads_of_calls_that_hang_are_replaced_up_to_a_bound(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MAX_LOST_THREADS", 20)
    monkeypatch.setattr(threads, "PROBE_TIMEOUT_SECONDS", DEADLINE)  # the storage answers

    async def go() -> None:
        pool = StorageThreads("replaced")  # the probe answers: the storage is not wholly gone
        storage.back.clear()
        for _ in range(2):
            calls = [asyncio.ensure_future(pool.run(storage.call)) for _ in range(threads.MAX_THREADS)]
            await asyncio.wait(calls)
        with pytest.raises(Unreachable):
            await pool.run(int)
        assert count_threads("replaced") <= threads.MAX_THREADS + 20
        storage.back.set()
        await wait_until(lambda: count_threads("replaced") == 0)
        assert await pool.run(int) == 0

    run(go())


def test_cancelled_caller_of_hanging_call_waits_until_given_up(storage: Storage) -> None:
    async def go() -> None:
        pool = StorageThreads("cancelled", storage.probe)
        storage.back.clear()
        caller = asyncio.ensure_future(pool.run_to_completion(storage.call))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller], timeout=DEADLINE)
        assert caller.cancelled()

    run(go())


def test_cancelled_calls_that_hang_are_noticed_too(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    still_seconds = threads.STILL_TIMEOUT_SECONDS
    monkeypatch.setattr(threads, "STILL_TIMEOUT_SECONDS", DEADLINE)  # until all have begun

    async def go() -> None:
        pool = StorageThreads("abandoned", storage.probe)
        storage.back.clear()
        for number in range(threads.MAX_THREADS):
            call = asyncio.ensure_future(pool.run(storage.call))
            await wait_until(lambda number=number: storage.begun > number)  # type: ignore[misc]
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        monkeypatch.setattr(threads, "STILL_TIMEOUT_SECONDS", still_seconds)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(pool.run(int), DEADLINE)

    run(go())


def test_what_has_to_be_done_later_is_done_when_the_storage_answers(storage: Storage) -> None:
    async def go() -> None:
        pool = StorageThreads("later", storage.probe)
        storage.back.clear()
        calls = [asyncio.ensure_future(pool.run(storage.call)) for _ in range(2 * threads.MAX_THREADS)]
        closed = list[int]()
        for number in range(3 * threads.MAX_LOST_THREADS):
            pool.run_later(lambda number=number: (storage.back.wait(), closed.append(number)))  # type: ignore[misc]
        await asyncio.wait(calls)
        assert closed == []
        storage.back.set()
        await wait_until(lambda: len(closed) == 3 * threads.MAX_LOST_THREADS)

    run(go())
