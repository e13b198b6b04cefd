"""The election of the process that runs the tasks, and the messages of the others to it.

A parent process forks the processes and only supervises them and the records engine. The process that holds a lock
leads: it runs the tasks, the schedule and the protocols beside HTTP. When it dies, the kernel gives the lock to another
process. The others write to a pipe, which keeps unread messages.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

import orjson

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_warning
from mangrove.records.tasks.model import Task

LOCK = "tasks.lock"
PIPE_BYTES = 1 << 20  # about ten thousand messages
READ_BYTES = 1 << 16


class Queued(NamedTuple):
    """A task of `kind` that the user `owner` has requested and that waits for a worker."""

    kind: str
    owner: int
    id: str


class TaskMessage(StrEnum):
    """The event of a task in a message."""

    START = "start"
    EXPEDITE = "expedite"
    FORGET = "forget"


class TaskRunner(Protocol):
    """A runner of tasks in this process."""

    def add(self, task: Task) -> None:
        """Queue a task whose record is known. Any thread may call it."""
        ...

    def receive(self, message: TaskMessage, task: Queued) -> None:
        """Queue, end or drop a task. Any thread may call it."""
        ...


class TaskLeader:
    """The leadership of one process among `process_count`.

    It dispatches tasks to its own runner if it leads, otherwise to the process that leads. A service of one process has
    no pipe; its tasks wait in the records until it leads.
    """

    def __init__(self, process_count: int = 1, reader: int = -1, writer: int = -1, lock: int = -1) -> None:
        self.process_count = process_count
        self._reader = reader
        self._writer = writer
        self._lock = lock
        self._runner: TaskRunner | None = None
        self._partial_line = b""

    @classmethod
    def open(cls, process_count: int, data: Path) -> TaskLeader:
        """Return a leadership for processes that are forked afterwards, with a pipe to the leader.

        The lock is a file in `data`. All processes have it open, since `data` may be read-only when one starts again.
        """
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with suppress(OSError, AttributeError):  # more than an account may have, or another operating system
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        lock = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return cls(process_count, reader, writer, lock)

    @property
    def is_remote(self) -> bool:
        """True if another process leads, as far as this process knows."""
        return self.process_count > 1 and self._runner is None

    async def wait(self) -> None:
        """Return when this process leads; it leads until it ends. A service of one process leads immediately."""
        if self._lock < 0:
            return
        loop = asyncio.get_running_loop()
        is_locked = asyncio.Event()

        def wait() -> None:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            with suppress(RuntimeError):  # the process ends
                loop.call_soon_threadsafe(is_locked.set)

        threading.Thread(target=wait, name="leader", daemon=True).start()
        await is_locked.wait()

    def lead(self, runner: TaskRunner) -> None:
        """Dispatch to `runner` from now on, including messages of other processes. The running loop reads them."""
        self._runner = runner
        if self._reader >= 0:
            asyncio.get_running_loop().add_reader(self._reader, self._read)

    def start(self, task: Task, suffix: str = "") -> None:
        """Queue a task. Starting it twice is one run, with any `suffix`."""
        if self._runner is not None:
            self._runner.add(task)
        else:
            self._send(TaskMessage.START, task)

    def expedite(self, task: Task) -> None:
        """End a task soon that was cancelled while it waits for a worker."""
        self._dispatch(TaskMessage.EXPEDITE, task)

    def forget(self, task: Task) -> None:
        """Drop a task that was deleted before its first run."""
        self._dispatch(TaskMessage.FORGET, task)

    def _dispatch(self, message: TaskMessage, task: Task) -> None:
        if self._runner is not None:
            self._runner.receive(message, Queued(task.kind, task.owner, task.id))
        else:
            self._send(message, task)

    def _send(self, message: TaskMessage, task: Task) -> None:
        """Send a message to the leader. If the pipe is full, the leader finds the task in the records."""
        if self._writer < 0:
            return
        line = orjson.dumps([message, task.kind, task.owner, task.id], option=orjson.OPT_APPEND_NEWLINE)
        try:
            os.write(self._writer, line)  # atomic, since it is shorter than PIPE_BUF
        except BlockingIOError:
            change_counters().bump(Topic.UNSENT_TASKS)

    def _read(self) -> None:
        """Read messages.

        A partial line at the beginning is the rest of a line that the last reader had started to read when it died.
        """
        try:
            text = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return
        *lines, self._partial_line = (self._partial_line + text).split(b"\n")
        for line in lines:
            try:
                message, kind, owner, id = orjson.loads(line)
                message = TaskMessage(message)
            except ValueError:
                log_warning("truncated message about a task ignored")
                continue
            if self._runner is not None:
                self._runner.receive(message, Queued(kind, owner, id))
