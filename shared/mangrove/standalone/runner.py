"""The runner of tasks in this process: their concurrency, their order, and their restarts.

An interrupted execution is started again. Spec and cursor of a task are in the records, so it continues from its last
saved step.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from mangrove import configuration
from mangrove.core.concurrency import RoundRobinQueue
from mangrove.core.problems import Problem, RecordsUnavailable
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_event, log_exception
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks.lists import UnfinishedPage, UnfinishedStart
from mangrove.records.tasks.model import Task
from mangrove.standalone.leader import Queued, TaskMessage
from mangrove.standalone.machines import LoadedMachine, load_machines
from mangrove.tasks.core.leases import Superseded, find_task, get_held
from mangrove.tasks.core.registry import KINDS, find_machine
from mangrove.tasks.core.worker_loop import use_loop

STOPPING = 8  # tasks that end together because they were cancelled while they waited
POLL_SECONDS = 1.0  # between two comparisons of the number of workers with the settings
FIRST_RETRY_DELAY_SECONDS = 5.0  # before a failed task is tried again; doubled each time
MAX_RETRY_DELAY_SECONDS = 300.0


@dataclass(slots=True)
class _Execution:
    """A task that runs in its turn in `queue`.

    `is_new`: no worker has started. `turn`: its next turn, after it yielded to another task.
    """

    queue: RoundRobinQueue[Queued]
    task: asyncio.Task[None]
    is_new: bool = True
    turn: asyncio.Future[None] | None = None


@dataclass(slots=True)
class _Postponed:
    """A task whose execution did not settle it.

    It is started again at `time` (monotonic), and after twice the `delay` the next time.
    """

    time: float
    delay: float


class Runner:
    """A runner of tasks in this process. It runs as many of a kind as the settings allow, each owner's in turn.

    Between two steps, and while it waits for something, a task yields to one of an owner who has fewer running tasks.

    The runner survives every error: it reads again what it could not read, and starts a task later that could not be
    settled. `loaded`: machines and the handlers of their states by the machines' names; by default those of the
    template.
    """

    def __init__(self, loaded: Mapping[str, LoadedMachine] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps: set[asyncio.Task[dict[str, Any]]] = set()
        self._machines = load_machines() if loaded is None else loaded
        self._queues: dict[str, RoundRobinQueue[Queued]] = {name: RoundRobinQueue() for name in KINDS}
        self._stopped: RoundRobinQueue[Queued] = (
            RoundRobinQueue()
        )  # tasks that were cancelled while they waited, of all kinds
        self._running: dict[Queued, _Execution] = {}
        self._restart: set[Queued] = set()  # started while they still ran: that run may have ended already
        self._postponed: dict[Queued, _Postponed] = {}
        self._is_over = False
        self._reading = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None  # settings that another process has changed
        use_loop(self._loop)

    def add(self, task: Task) -> None:
        """Queue a task. Any thread may call it. Adding it twice is one run."""
        self._loop.call_soon_threadsafe(self._take_up, task)

    def receive(self, message: TaskMessage, task: Queued) -> None:
        """Queue a task, end one that was cancelled while it waited, or drop one. Any thread may call it."""
        match message:
            case TaskMessage.START:
                self._loop.call_soon_threadsafe(self._enqueue, task)
            case TaskMessage.EXPEDITE:
                self._loop.call_soon_threadsafe(self._stop, task)
            case TaskMessage.FORGET:
                self._loop.call_soon_threadsafe(self._drop, task)

    async def run(self) -> None:
        """Queue the unfinished tasks, and follow the settings, until cancelled."""
        self._unsent = change_counters().read(Topic.UNSENT_TASKS)
        self._taking_up = asyncio.create_task(self._take_up_unfinished())
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                try:
                    await self._look()
                except Exception:  # survive any error, because no other process runs the tasks
                    log_exception("error in the task runner; continuing")
        finally:
            self._is_over = True
            following = [] if self._following is None else [self._following]
            for execution in [self._taking_up, *following, *(running.task for running in self._running.values())]:
                execution.cancel()

    async def _look(self) -> None:
        """Start the tasks that the settings allow, and those that were postponed until now."""
        await self._follow_settings()
        if self._unsent != change_counters().read(Topic.UNSENT_TASKS) and self._taking_up.done():
            self._unsent = change_counters().read(Topic.UNSENT_TASKS)
            self._taking_up = asyncio.create_task(self._take_up_unfinished())
        now = time.monotonic()
        for queued, postponed in list(self._postponed.items()):
            if postponed.time <= now:
                self._enqueue(queued)

    async def _follow_settings(self) -> None:
        """Run the waiting tasks by the present settings."""
        try:
            await configuration.get()
        except Problem:
            pass  # continue with the last settings until the next check
        for kind in KINDS:
            self._run_allowed(kind)

    async def _take_up_unfinished(self) -> None:
        for kind in KINDS:
            page: UnfinishedPage | None = await self._read_unfinished(kind, None)
            while page is not None:
                for id, owner in page.owners.items():
                    queued = Queued(kind, owner, id)
                    if queued not in self._running:
                        self._enqueue(queued)
                page = await self._read_unfinished(kind, page.next_start) if page.next_start else None

    async def _read_unfinished(self, kind: str, start: UnfinishedStart | None) -> UnfinishedPage:
        """Queue one page of unfinished tasks, with retries."""
        delay = FIRST_RETRY_DELAY_SECONDS
        while True:
            try:
                return await asyncio.to_thread(task_lists.list_unfinished, kind, start)
            except Exception:  # retry after any error, because the tasks would be lost
                log_exception("unfinished tasks cannot be read; retrying", kind=kind, seconds=delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_DELAY_SECONDS)

    def _take_up(self, task: Task) -> None:
        """Queue a task. If it can start immediately, its record is not read."""
        queued = Queued(task.kind, task.owner, task.id)
        self._enqueue(queued)
        if queued in self._running and self._running[queued].is_new:
            get_held().add_read_ahead([task])

    def _enqueue(self, queued: Queued) -> None:
        if self._is_over:
            return  # the next start of the service queues it
        if queued in self._running:
            self._restart.add(queued)
        elif not any(queue.is_waiting(queued.owner, queued) for queue in (self._queues[queued.kind], self._stopped)):
            self._queues[queued.kind].add(queued.owner, queued)
            if queued in self._postponed:
                self._postponed[queued].time = math.inf
            self._run_waiting(queued.kind)

    def _stop(self, queued: Queued) -> None:
        if queued in self._postponed:
            self._enqueue(queued)
        get_held().take_read_ahead(queued.id)
        if self._queues[queued.kind].discard(queued.owner, queued):
            self._stopped.add(queued.owner, queued)
            self._run_queue(self._stopped, STOPPING)

    def _drop(self, queued: Queued) -> None:
        self._queues[queued.kind].discard(queued.owner, queued)
        self._postponed.pop(queued, None)

    def _run_waiting(self, kind: str) -> None:
        """Run the waiting tasks of a kind while the settings allow another one.

        The settings are read first, because another process may have confirmed a change of them.
        """
        if configuration.is_fresh():
            self._run_allowed(kind)
        elif self._following is None or self._following.done():
            self._following = self._loop.create_task(self._follow_settings())

    def _run_allowed(self, kind: str) -> None:
        workers = KINDS[kind].workers
        if isinstance(workers, str):
            workers = configuration.cached().settings.task_workers(workers)
        self._run_queue(self._queues[kind], workers)

    def _run_queue(self, queue: RoundRobinQueue[Queued], workers: int) -> None:
        while queue.active < workers and (queued := queue.find_next()) is not None:
            queue.take(queued.owner, queued)
            execution = self._running.get(queued)
            if execution is None:
                task = asyncio.create_task(self._execute(queued))
                self._running[queued] = _Execution(queue, task)
                task.add_done_callback(partial(self._on_end, queued))
            elif execution.turn is not None:
                execution.queue = queue
                execution.turn.set_result(None)

    def _on_end(self, queued: Queued, _: asyncio.Task[None]) -> None:
        execution = self._running.pop(queued)
        if self._is_over or self._loop.is_closed():
            return
        execution.queue.end(queued.owner)
        if queued in self._restart:
            self._restart.discard(queued)
            self._enqueue(queued)
        self._run_waiting(queued.kind)
        self._run_queue(self._stopped, STOPPING)

    async def _give_way(self, queued: Queued) -> None:
        """If a task of another owner is due, let it work until the turn of this task comes again."""
        execution = self._running[queued]
        if not execution.queue.should_yield(queued.owner):
            return
        execution.queue.end(queued.owner)
        execution.turn = self._loop.create_future()
        self._queues[queued.kind].add(queued.owner, queued, first=True)
        self._run_waiting(queued.kind)
        await execution.turn

    async def _execute(self, queued: Queued) -> None:
        async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
            if value.get("more") and "failure" not in value:
                await self._give_way(queued)
            step = self._loop.create_task(handlers[name].work(value, None), context=Context())
            self._steps.add(step)
            step.add_done_callback(self._steps.discard)
            return await asyncio.shield(step)  # at the end of the service it goes on as long as the loop does

        async def sleep(seconds: float) -> None:
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                await self._give_way(queued)
                await asyncio.sleep(min(left, POLL_SECONDS))

        is_left = True
        try:
            await self._read_ahead(queued)
            self._running[queued].is_new = False
            machine, handlers = self._machines[await self._find_machine(queued)]
            is_left = (await machine.run({"tid": queued.id}, work, sleep=sleep))["more"]
        except Superseded:  # it was deleted meanwhile
            is_left = False
        except Exception:  # restart after any error, because the task would be lost
            log_exception("task could not be settled", tid=queued.id)
        finally:
            get_held().release(queued.id)
        if is_left:
            self._postpone(queued)
        else:
            self._postponed.pop(queued, None)

    async def _find_machine(self, queued: Queued) -> str:
        """Return the name of the machine of a task. Raise Superseded if the task does not exist any more."""
        return find_machine(get_held().find_read_ahead(queued.id) or await find_task(queued.id))

    async def _read_ahead(self, queued: Queued) -> None:
        """Read the records of this task and of those that follow in one call.

        Single calls cost twenty times as much.
        """
        async with self._reading:
            if get_held().find_read_ahead(queued.id) is not None:
                return
            queue = self._running[queued].queue
            starting = (other for other, execution in self._running.items() if execution.is_new)
            following = (other for other in queue if other not in self._running)
            ids = [other.id for other in islice(chain(starting, following), task_batches.MAX_TASKS_PER_CALL)]
            try:
                get_held().add_read_ahead(await asyncio.to_thread(task_batches.read, ids))
            except RecordsUnavailable:
                pass  # its first worker reads it, or tries again

    def _postpone(self, queued: Queued) -> None:
        last = self._postponed.get(queued)
        delay = FIRST_RETRY_DELAY_SECONDS if last is None else min(last.delay * 2, MAX_RETRY_DELAY_SECONDS)
        self._postponed[queued] = _Postponed(time.monotonic() + delay, delay)
        log_event("task restarts later", tid=queued.id, seconds=delay)
