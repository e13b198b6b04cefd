"""A line in the log for each request. `mangrove serve` has them formatted and written by a thread, many at once: no
request waits for it, and a killed process loses those of the last tenth of a second."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from select import PIPE_BUF
from stat import S_ISFIFO
from typing import Any, NamedTuple

import orjson

from mangrove.core import telemetry
from mangrove.core.telemetry import log, log_detail, log_event

SECONDS = 0.05  # in which lines gather
MOST = 100_000  # lines that wait where nobody takes them; the oldest give way
MESSAGE = "request"


class Line(NamedTuple):
    """`time`: seconds since the epoch."""

    time: float
    level: int
    facts: Mapping[str, Any]


class AccessLog:
    """Until it is opened lines go through the logger, one by one."""

    def __init__(self) -> None:
        self._waiting: deque[Line] = deque(maxlen=MOST)
        self._lost = 0
        self._has_lines = threading.Event()
        self._is_closed = threading.Event()
        self._descriptor: int | None = None
        self._writing = threading.Lock()

    def open(self, descriptor: int) -> None:
        """Write to this file from now on, as JSON lines of the logger's form."""
        self._descriptor = descriptor
        threading.Thread(target=self._write_on, name="access log", daemon=True).start()

    def note(self, facts: Mapping[str, Any], *, is_detail: bool) -> None:
        """Log a request; `is_detail`: at the level DEBUG."""
        if self._descriptor is None:
            (log_detail if is_detail else log_event)(MESSAGE, **facts)
            return
        level = logging.DEBUG if is_detail else logging.INFO
        if log.log_level > level:
            return
        if len(self._waiting) == MOST:
            self._lost += 1
        self._waiting.append(Line(time.time(), level, facts))
        if not self._has_lines.is_set():
            self._has_lines.set()

    def close(self) -> None:
        """Write what waits; lines that come later are lost."""
        self._is_closed.set()
        self._has_lines.set()
        if self._descriptor is not None:
            self._write()

    def _write_on(self) -> None:
        while not self._is_closed.is_set():
            self._has_lines.wait()
            self._is_closed.wait(SECONDS)
            self._has_lines.clear()
            self._write()

    def _write(self) -> None:
        with self._writing:
            lines = [_format(self._waiting.popleft()) for _ in range(len(self._waiting))]
            lost, self._lost = self._lost, 0
            if lost:
                lines.append(_format(Line(time.time(), logging.WARNING, {"lost lines": lost})))
            if lines and self._descriptor is not None:
                with telemetry.hold_stream():
                    _write_all(self._descriptor, lines)


def _join(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Texts that a pipe takes whole: other processes write to it, too."""
    text = b""
    for line in lines:
        if text and len(text) + len(line) > PIPE_BUF:
            yield text
            text = b""
        text += line
    yield text


def _format(line: Line) -> bytes:
    return orjson.dumps(
        {
            "level": logging.getLevelName(line.level),
            "location": "",
            "message": MESSAGE,
            "timestamp": datetime.fromtimestamp(line.time).astimezone().isoformat(timespec="milliseconds"),
            "service": log.service,
            "facts": line.facts,
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def _write_all(descriptor: int, lines: Sequence[bytes]) -> None:
    try:
        for text in _join(lines) if S_ISFIFO(os.fstat(descriptor).st_mode) else [b"".join(lines)]:
            left = memoryview(text)
            while left:
                left = left[os.write(descriptor, left) :]
    except OSError:
        pass  # nobody reads the log any more, and there is no place to say so
