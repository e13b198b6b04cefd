"""Processes tell the one that runs the tasks of them: whole messages, kept while nobody reads, and no more than fit."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.standalone.siblings import Message, Queued, Siblings, TaskReceiver, TaskSender

TASK: Any = SimpleNamespace(kind="copy", owner=3, id="abc")


def receive(siblings: Siblings, count: int) -> list[tuple[Message, Queued]]:
    """What a process reads that takes the tasks over."""
    found: list[tuple[Message, Queued]] = []

    async def read() -> None:
        has_all = asyncio.Event()

        def handle(message: Message, one: Queued) -> None:
            found.append((message, one))
            if len(found) == count:
                has_all.set()

        TaskReceiver(siblings.reader, handle).open()
        await has_all.wait()
        asyncio.get_running_loop().remove_reader(siblings.reader)

    asyncio.run(asyncio.wait_for(read(), 30))
    return found


def test_what_was_sent_while_nobody_read_is_read_later() -> None:
    siblings = Siblings.open(2)
    sender = TaskSender(siblings.writer)
    sender.start(TASK)
    sender.expedite(TASK)
    sender.forget(TASK)
    one = Queued("copy", 3, "abc")
    assert receive(siblings, 3) == [(Message.START, one), (Message.EXPEDITE, one), (Message.FORGET, one)]


def test_half_a_message_is_passed_over() -> None:
    siblings = Siblings.open(2)
    os.write(siblings.writer, b'py",3,"abc"]\n')
    TaskSender(siblings.writer).start(TASK)
    assert receive(siblings, 1) == [(Message.START, Queued("copy", 3, "abc"))]


def test_what_finds_no_room_is_noted_for_the_records_to_be_read() -> None:
    siblings = Siblings.open(2)
    sender, sent = TaskSender(siblings.writer), 0
    before = change_counters().read(Topic.UNSENT_TASKS)
    while change_counters().read(Topic.UNSENT_TASKS) == before:
        sender.start(TASK)
        sent += 1
    assert len(receive(siblings, sent - 1)) == sent - 1


def test_one_process_at_a_time_is_in_charge(tmp_path: Path) -> None:
    """The lock goes with the process that had it, whatever became of that."""
    ready, holding = os.pipe()
    pid = os.fork()
    if not pid:
        asyncio.run(Siblings(2).wait_for_charge(tmp_path))
        os.write(holding, b"x")
        signal.pause()
    os.read(ready, 1)

    async def wait() -> bool:
        waiting = asyncio.ensure_future(Siblings(2).wait_for_charge(tmp_path))
        await asyncio.sleep(0.1)
        was_waiting = not waiting.done()
        os.kill(pid, signal.SIGKILL)
        await asyncio.wait_for(waiting, 30)
        return was_waiting

    assert asyncio.run(wait())
    os.waitpid(pid, 0)
