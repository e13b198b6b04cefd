"""Messages of processes to the leader: complete, kept until they are read, and limited by the pipe."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.standalone.leader import Queued, TaskLeader, TaskMessage

TASK: Any = SimpleNamespace(kind="copy", owner=3, id="abc")


class Runner:
    """Remembers what it receives until there are `count` messages."""

    def __init__(self, count: int) -> None:
        self.received: list[tuple[TaskMessage, Queued]] = []
        self.added: list[Any] = []
        self.has_all = asyncio.Event()
        self._count = count

    def add(self, task: Any) -> None:
        self.added.append(task)

    def receive(self, message: TaskMessage, task: Queued) -> None:
        self.received.append((message, task))
        if len(self.received) == self._count:
            self.has_all.set()


def receive(leader: TaskLeader, count: int) -> list[tuple[TaskMessage, Queued]]:
    """Return what a process receives that begins to lead."""

    async def read() -> Runner:
        runner = Runner(count)
        leader.lead(runner)
        await runner.has_all.wait()
        asyncio.get_running_loop().remove_reader(leader._reader)
        return runner

    return asyncio.run(asyncio.wait_for(read(), 30)).received


def test_messages_sent_while_no_process_leads_are_read_later(tmp_path: Path) -> None:
    leader = TaskLeader.open(2, tmp_path)
    assert leader.is_remote
    leader.start(TASK)
    leader.expedite(TASK)
    leader.forget(TASK)
    queued = Queued("copy", 3, "abc")
    assert receive(leader, 3) == [
        (TaskMessage.START, queued),
        (TaskMessage.EXPEDITE, queued),
        (TaskMessage.FORGET, queued),
    ]
    assert not leader.is_remote


def test_partial_message_at_the_beginning_is_skipped(tmp_path: Path) -> None:
    leader = TaskLeader.open(2, tmp_path)
    os.write(leader._writer, b'py",3,"abc"]\n')
    leader.start(TASK)
    assert receive(leader, 1) == [(TaskMessage.START, Queued("copy", 3, "abc"))]


def test_message_without_room_bumps_the_counter_of_unsent_tasks(tmp_path: Path) -> None:
    leader, sent = TaskLeader.open(2, tmp_path), 0
    before = change_counters().read(Topic.UNSENT_TASKS)
    while change_counters().read(Topic.UNSENT_TASKS) == before:
        leader.start(TASK)
        sent += 1
    assert len(receive(leader, sent - 1)) == sent - 1


def test_single_process_leads_at_once_and_keeps_tasks_itself(tmp_path: Path) -> None:
    async def lead() -> tuple[TaskLeader, Runner]:
        leader, runner = TaskLeader(), Runner(0)
        leader.start(TASK)  # it waits in the records
        await asyncio.wait_for(leader.wait(), 30)
        leader.lead(runner)
        leader.start(TASK)
        leader.expedite(TASK)
        return leader, runner

    leader, runner = asyncio.run(lead())
    assert (leader.is_remote, runner.added, runner.received) == (
        False, [TASK], [(TaskMessage.EXPEDITE, Queued("copy", 3, "abc"))]
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_one_process_at_a_time_is_in_charge(tmp_path: Path) -> None:
    """The lock is released at the end of its process, however it ends."""
    leader = TaskLeader.open(2, tmp_path)
    ready, holding = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(leader.wait())
            os.write(holding, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(holding)
    assert os.read(ready, 1) == b"x"

    async def wait() -> bool:
        waiting = asyncio.ensure_future(leader.wait())
        await asyncio.sleep(0.1)
        was_waiting = not waiting.done()
        os.kill(pid, signal.SIGKILL)
        await asyncio.wait_for(waiting, 30)
        return was_waiting

    assert asyncio.run(wait())
    os.waitpid(pid, 0)
