"""The database of the index in a process of its own, for all processes of a service.

Its library and its memory are needed only while people search. The process starts at the first call and ends after
IDLE_SECONDS without one. Each connection has tables of its own, which end with the connection.

A message is its length and a tuple in the format of `marshal`, which only processes of one program exchange. Requests:
`(number, kind, statements, seconds)` or, to cancel a call, `(number,)`. Answers: `(number, results)` or
`(number, name of a failure, text, data)`.
"""

from __future__ import annotations

import asyncio
import marshal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from mangrove.core.problems import Problem, SearchTooSlow
from mangrove.core.telemetry import log_exception
from mangrove.core.unix_sockets import connect
from mangrove.search.calls import CallKind, DamagedSegment, DatabaseCall, InvalidStatement, Rows, TablesLost
from mangrove.search.threads import ThreadRunner

IDLE_SECONDS = 300.0
GRACE_SECONDS = 2.0  # for an answer after the time of a call
LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = 1 << 28  # the largest change has 200,000 names of at most 255 characters
FAILURES: dict[str, Callable[..., Exception]] = {
    "DamagedSegment": DamagedSegment, "InvalidStatement": InvalidStatement, "Problem": Problem,
    "SearchTooSlow": SearchTooSlow,
}  # fmt: skip
Message = tuple[Any, ...]


async def serve(listener: socket.socket, folder: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Answer calls on the index in `folder` until there was none for `idle_seconds`."""
    process = _IndexProcess(folder)
    server = await asyncio.start_server(process.answer, sock=listener)  # `start_unix_server` would remove its file
    await process.wait_until_idle(idle_seconds)
    server.close()  # a caller that has just sent a call starts again in the next process


class _IndexProcess:
    """The connections of this process, and the number of running calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = 0
        self._has_ended = asyncio.Event()

    async def wait_until_idle(self, seconds: float) -> None:
        """Return when no call has run for so many seconds."""
        is_idle = False
        while not is_idle:
            self._has_ended.clear()
            try:
                await asyncio.wait_for(self._has_ended.wait(), seconds)
            except TimeoutError:
                is_idle = self._running == 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the calls of a connection until its end."""
        runner = ThreadRunner(self._folder)
        calls: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                number, *fields = await _receive(reader)
                if fields:
                    calls[number] = asyncio.create_task(self._run(runner, writer, number, fields))
                    calls[number].add_done_callback(partial(_drop, calls, number))
                elif number in calls:
                    calls[number].cancel()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the other process has ended
        finally:
            for task in [*calls.values()]:
                task.cancel()
            writer.close()
            await asyncio.to_thread(runner.close)

    async def _run(self, runner: ThreadRunner, writer: asyncio.StreamWriter, number: int, fields: list[Any]) -> None:
        kind, statements, seconds = fields
        self._running += 1
        try:
            answer = _encode((number, await runner.run(DatabaseCall(CallKind(kind), statements, seconds))))
        except Exception as error:  # any error belongs to the caller, in the other process
            answer = _encode((number, *_describe(error)))
        finally:
            self._running -= 1
            self._has_ended.set()
        with suppress(OSError):  # the other process has ended
            await _send(writer, answer)


def _drop(calls: dict[int, asyncio.Task[None]], number: int, _: object) -> None:
    del calls[number]


def _describe(error: Exception) -> tuple[str, str, Any]:
    """Return the name, the text and the data of a failure."""
    name = type(error).__name__
    if name not in FAILURES:
        log_exception("call of the search index failed")
        return "InvalidStatement", str(error), None
    return name, str(error), error.data if isinstance(error, Problem) else None


def _restore(name: str, text: str, data: Any) -> Exception:
    make = FAILURES[name]
    return make(text) if data is None else make(text, data=data)


def _encode(message: Message) -> bytes:
    """Return the content of a message. Raise SearchTooSlow if it is too long."""
    content = marshal.dumps(message)
    if len(content) > MAX_MESSAGE_BYTES:
        raise SearchTooSlow
    return content


async def _send(writer: asyncio.StreamWriter, content: bytes) -> None:
    """Send a message. Raise OSError."""
    writer.write(len(content).to_bytes(LENGTH_BYTES))
    writer.write(content)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> Message:
    """Return the next message. Raise IncompleteReadError or OSError at the end of the connection."""
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES))
    if length > MAX_MESSAGE_BYTES:
        raise OSError(f"a message of {length} bytes is too long")
    message: Message = marshal.loads(await reader.readexactly(length))  # noqa: S302  of a process of this program
    return message


class ProcessRunner:
    """Runs calls in the process that accepts connections at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: _Connection | None = None
        self._opening = asyncio.Lock()
        self.generation = 0

    async def run(self, call: DatabaseCall) -> list[Rows]:
        """Return the rows of each statement, as `CallRunner.run`."""
        async with self._opening:
            if self._connection is None or self._connection.is_closed:
                self._connection = await self._connect()
        return await self._connection.run(call)

    async def _connect(self) -> _Connection:
        try:
            connection = await asyncio.to_thread(connect, self._path, GRACE_SECONDS)
            connection.setblocking(False)
            return _Connection(*await asyncio.open_unix_connection(sock=connection), self._note_loss)
        except OSError as error:
            raise SearchTooSlow from error

    def _note_loss(self) -> None:
        self.generation += 1

    def close(self) -> None:
        """End the connection, which interrupts its calls."""
        if self._connection is not None:
            self._connection.close()


class _Connection:
    """A connection to the process, and the calls that wait for their answers. `note_end` is called at its end."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note_end: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._note_end = note_end
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[list[Rows]]] = {}
        self._reading = asyncio.create_task(self._read())
        self.is_closed = False

    async def run(self, call: DatabaseCall) -> list[Rows]:
        """Return the rows of each statement."""
        number = next(self._numbers)
        answer: asyncio.Future[list[Rows]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(call.seconds + GRACE_SECONDS):
                request = number, int(call.kind), [*map(tuple, call.statements)], call.seconds
                await _send(self._writer, _encode(request))
                return await answer
        except TimeoutError:
            raise SearchTooSlow from None
        except OSError:
            raise TablesLost from None
        finally:
            del self._waiting[number]
            if not answer.done() or answer.cancelled():
                self._cancel(number)

    def _cancel(self, number: int) -> None:
        """Interrupt a call for which no caller waits any more."""
        if not self.is_closed:
            content = _encode((number,))
            self._writer.write(len(content).to_bytes(LENGTH_BYTES) + content)

    async def _read(self) -> None:
        try:
            while True:
                number, *fields = await _receive(self._reader)
                self._settle(self._waiting.get(number), fields)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the process has ended
        finally:
            self.close()

    def _settle(self, answer: asyncio.Future[list[Rows]] | None, fields: list[Any]) -> None:
        if answer is None or answer.done():
            return
        if len(fields) == 1:
            answer.set_result(fields[0])
        else:
            answer.set_exception(_restore(*fields))

    def close(self) -> None:
        """End the connection and the waiting calls."""
        if self.is_closed:
            return
        self.is_closed = True
        self._writer.close()
        self._note_end()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(TablesLost())
