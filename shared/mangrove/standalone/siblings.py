"""What the processes of one service share, and which of them runs the tasks.

They are forked from one that only keeps them and the records engine. The one that holds a lock runs the tasks, the
schedule and the doors beside HTTP; when it dies the kernel gives the lock to another. The others tell it of tasks
through a pipe, which keeps what nobody has read.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import orjson

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_warning
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.machines import TaskDispatcher

LOCK = "tasks.lock"
PIPE_BYTES = 1 << 20  # some ten thousand messages
READ_BYTES = 1 << 16


class Queued(NamedTuple):
    """A task of `kind` that the user `owner` has requested, as it waits for a worker."""

    kind: str
    owner: int
    id: str


class Message(StrEnum):
    """What the process that runs the tasks is told of one."""

    START = "start"
    EXPEDITE = "expedite"
    FORGET = "forget"


class Siblings:
    """How many processes the service has, and the pipe to the one that runs the tasks; alone unless it is said."""

    def __init__(self, count: int = 1, reader: int = -1, writer: int = -1) -> None:
        self.count = count
        self.reader = reader
        self.writer = writer
        self._lock = -1

    @classmethod
    def open(cls, count: int) -> Siblings:
        """For processes that are forked afterwards."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with suppress(OSError, AttributeError):  # beyond what an account may have, or not this system
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return cls(count, reader, writer)

    async def wait_for_charge(self, data: Path) -> None:
        """Until this process is the one that runs the tasks, which it then is as long as it lives."""
        loop = asyncio.get_running_loop()
        is_in_charge = asyncio.Event()

        def wait() -> None:
            self._lock = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            with suppress(RuntimeError):  # the process ends
                loop.call_soon_threadsafe(is_in_charge.set)

        threading.Thread(target=wait, name="charge", daemon=True).start()
        await is_in_charge.wait()


class TaskSender(TaskDispatcher):
    """Tells the process that runs the tasks. What the pipe has no room for it finds in the records."""

    def __init__(self, writer: int) -> None:
        self._writer = writer

    def start(self, task: Task, suffix: str = "") -> None:
        self._send(Message.START, task)

    def expedite(self, task: Task) -> None:
        self._send(Message.EXPEDITE, task)

    def forget(self, task: Task) -> None:
        self._send(Message.FORGET, task)

    def _send(self, message: Message, task: Task) -> None:
        line = orjson.dumps([message, task.kind, task.owner, task.id], option=orjson.OPT_APPEND_NEWLINE)
        try:
            os.write(self._writer, line)  # whole or not at all: it is shorter than PIPE_BUF
        except BlockingIOError:
            change_counters().bump(Topic.UNSENT_TASKS)


class TaskReceiver:
    """Reads what the others tell; half a line is what the last reader had begun to read when it died."""

    def __init__(self, reader: int, handle: Callable[[Message, Queued], None]) -> None:
        self._reader = reader
        self._handle = handle
        self._rest = b""

    def open(self) -> None:
        """Read in the running loop from now on."""
        asyncio.get_running_loop().add_reader(self._reader, self._read)

    def _read(self) -> None:
        try:
            text = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in lines:
            try:
                message, kind, owner, id = orjson.loads(line)
                self._handle(Message(message), Queued(kind, owner, id))
            except ValueError:
                log_warning("a message about a task was cut off")
