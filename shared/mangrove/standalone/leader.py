"""The election of the process that runs the tasks, and the messages of the others to it.

The processes are forked from one that only keeps them and the records engine. The one that holds a lock leads: it runs
the tasks, the schedule and the protocols beside HTTP. When it dies, the kernel gives the lock to another one. The
others write to a pipe, which keeps what nobody has read.
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
PIPE_BYTES = 1 << 20  # some ten thousand messages
READ_BYTES = 1 << 16


class Queued(NamedTuple):
    """A task of `kind` that the user `owner` has requested, as it waits for a worker."""

    kind: str
    owner: int
    id: str


class Message(StrEnum):
    """The part of a message that says what becomes of a task."""

    START = "start"
    EXPEDITE = "expedite"
    FORGET = "forget"


class TaskRunner(Protocol):
    """Runs tasks in this process."""

    def add(self, task: Task) -> None:
        """Queue a task whose record is known; from any thread."""
        ...

    def receive(self, message: Message, task: Queued) -> None:
        """Queue, end or drop a task; from any thread."""
        ...


class TaskLeader:
    """The leadership of one process among `process_count`: dispatches tasks to its runner once it leads, to the process
    that leads before that. A service of one process has no pipe; its tasks wait in the records until it leads."""

    def __init__(self, process_count: int = 1, reader: int = -1, writer: int = -1) -> None:
        self.process_count = process_count
        self._reader = reader
        self._writer = writer
        self._lock = -1
        self._runner: TaskRunner | None = None
        self._partial_line = b""

    @classmethod
    def open(cls, process_count: int) -> TaskLeader:
        """Return one for processes that are forked afterwards, with a pipe to the one that leads."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with suppress(OSError, AttributeError):  # beyond what an account may have, or not this system
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return cls(process_count, reader, writer)

    @property
    def is_remote(self) -> bool:
        """True if another process leads, as far as this one knows."""
        return self.process_count > 1 and self._runner is None

    async def wait(self, data: Path) -> None:
        """Return when this process leads; it does so as long as it lives. A service of one process leads at once."""
        if self.process_count == 1:
            return
        loop = asyncio.get_running_loop()
        is_locked = asyncio.Event()

        def wait() -> None:
            self._lock = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            with suppress(RuntimeError):  # the process ends
                loop.call_soon_threadsafe(is_locked.set)

        threading.Thread(target=wait, name="leader", daemon=True).start()
        await is_locked.wait()

    def lead(self, runner: TaskRunner) -> None:
        """Dispatch to `runner` from now on, also what the other processes send; in the running loop."""
        self._runner = runner
        if self._reader >= 0:
            asyncio.get_running_loop().add_reader(self._reader, self._read)

    def start(self, task: Task, suffix: str = "") -> None:
        """Queue a task. Starting it twice is one run, whatever the `suffix`."""
        if self._runner is not None:
            self._runner.add(task)
        else:
            self._send(Message.START, task)

    def expedite(self, task: Task) -> None:
        """Let a task that was cancelled while it waits for a worker end soon."""
        self._dispatch(Message.EXPEDITE, task)

    def forget(self, task: Task) -> None:
        """Drop a task that was deleted before its first run."""
        self._dispatch(Message.FORGET, task)

    def _dispatch(self, message: Message, task: Task) -> None:
        if self._runner is not None:
            self._runner.receive(message, Queued(task.kind, task.owner, task.id))
        else:
            self._send(message, task)

    def _send(self, message: Message, task: Task) -> None:
        """Tell the process that leads. It finds what the pipe has no room for in the records."""
        if self._writer < 0:
            return
        line = orjson.dumps([message, task.kind, task.owner, task.id], option=orjson.OPT_APPEND_NEWLINE)
        try:
            os.write(self._writer, line)  # whole or not at all: it is shorter than PIPE_BUF
        except BlockingIOError:
            change_counters().bump(Topic.UNSENT_TASKS)

    def _read(self) -> None:
        """Pass messages on. A partial line at the beginning is what the last reader had begun to read when it died."""
        try:
            text = os.read(self._reader, READ_BYTES)
        except BlockingIOError:
            return
        *lines, self._partial_line = (self._partial_line + text).split(b"\n")
        for line in lines:
            try:
                message, kind, owner, id = orjson.loads(line)
                message = Message(message)
            except ValueError:
                log_warning("a message about a task was cut off")
                continue
            if self._runner is not None:
                self._runner.receive(message, Queued(kind, owner, id))
