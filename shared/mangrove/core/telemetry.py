"""The log of the service: JSON lines in the cloud and in files, readable lines on a terminal.

Metrics in the cloud: lines on standard output in the Embedded Metric Format of CloudWatch. The id of a request is in
its answer, in each line of its log, and in its tasks. Spans are parts of the time of a request: without a tracer they
cost nothing and do nothing.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from select import PIPE_BUF
from stat import S_ISFIFO
from typing import Any, NamedTuple, TypeVar

import orjson
from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from mangrove.core.config import config
from mangrove.core.context_variables import set_in_context
from mangrove.core.metrics import LOG_LINES
from mangrove.core.metrics import TASKS_ENDED as ENDED_TASKS
from mangrove.core.platform import platform
from mangrove.core.shared_memory import metrics

NAMESPACE = "Mangrove"
ACCESS_LOG_INTERVAL_SECONDS = 0.05  # in which the lines about requests are collected
MAX_WAITING_LINES = 100_000  # about requests; the oldest are dropped
REQUEST_MESSAGE = "request"
LOG_FORMATS = ("text", "json")
Event = TypeVar("Event")
Result = TypeVar("Result")
Handler = Callable[[Event, Any], Result]
"""The handler of a function: event and context in; the context is None outside of Lambda."""
OpenSpan = Callable[[str], AbstractContextManager[object]]
_span_opener: ContextVar[OpenSpan | None] = ContextVar("open_span", default=None)
REQUEST_ID_HEADER = b"x-request-id"
MAX_REQUEST_ID_LENGTH = 64
_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_REQUEST_ID_LENGTH}}}")
_request_id: ContextVar[str] = ContextVar("request_id", default="")


def choose_request_id(header: bytes | None) -> str:
    """Return the id that a client or a proxy sent, or a new one if it is absent, too long or has other characters."""
    text = header.decode("latin-1") if header is not None else ""
    return text if _REQUEST_ID.fullmatch(text) else token_hex(8)


def get_request_id() -> str:
    """Return the id of the request, "" outside of a request."""
    return _request_id.get()


def use_request_id(id: str) -> AbstractContextManager[None]:
    """Work for this request while the context lasts."""
    return set_in_context(_request_id, id)


class ReadableFormatter(LambdaPowertoolsFormatter):
    """A formatter of lines such as `12:30:01 INFO message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        line = _format_text(self.formatTime(record, "%H:%M:%S"), record.levelname, record.getMessage(), facts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _format_text(time_text: str, level: str, message: str, facts: Mapping[str, Any]) -> str:
    fields = " ".join(f"{key}={value}" for key, value in facts.items())
    line = f"{time_text} {level} {message} {fields}".rstrip()
    return line if line.isprintable() else repr(line)[1:-1]  # a path must not control the terminal


def _make_logger() -> Logger:
    stream = sys.stderr
    if stream.isatty():
        return Logger(service="mangrove", stream=stream, logger_formatter=ReadableFormatter())
    return Logger(service="mangrove", stream=stream, location="", use_rfc3339=True)


log = _make_logger()
for _name in ("httpx", "httpcore", "boto3", "botocore", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # at lower levels they log addresses with their signatures


def set_format(log_format: str) -> None:
    """Write lines in one of LOG_FORMATS. The default is text on a terminal, and JSON elsewhere."""
    formatter: LambdaPowertoolsFormatter = ReadableFormatter()
    if log_format == "json":
        formatter = LambdaPowertoolsFormatter(location="", use_rfc3339=True)
        formatter.append_keys(service=log.service)
    log.registered_handler.setFormatter(formatter)


@contextmanager
def hold_stream() -> Iterator[None]:
    """Discard what other code writes to the stream of the log for the duration of the context."""
    handler = log.registered_handler
    handler.acquire()
    try:
        handler.flush()
        yield
    finally:
        handler.release()


def _add_request_id(facts: dict[str, Any]) -> dict[str, Any]:
    id = get_request_id()
    return facts | {"request_id": id} if id else facts


def log_detail(message: str, **fields: Any) -> None:
    """Log a detail for debugging, as `log_event` does."""
    log.debug(message, extra={"facts": _add_request_id(fields)})


def log_event(message: str, **fields: Any) -> None:
    """Log an event. Never pass secrets, tokens or query strings."""
    log.info(message, extra={"facts": _add_request_id(fields)})


def log_warning(message: str, **fields: Any) -> None:
    """Log a warning for the operator, as `log_event` does."""
    metrics().count(LOG_LINES, "warning")
    log.warning(message, extra={"facts": _add_request_id(fields)})


def log_exception(message: str, **fields: Any) -> None:
    """Log the present exception with its traceback."""
    metrics().count(LOG_LINES, "error")
    log.exception(message, extra={"facts": _add_request_id(fields)})


def name_invocation(handler: Handler[Event, Result]) -> Handler[Event, Result]:
    """Return the handler with the invocation in each line of its log: function, request id, and the id of the request
    in the log of the API.

    A function handles one event at a time.
    """

    def named(event: Event, context: Any) -> Result:
        if context is None:  # not in Lambda
            return handler(event, context)
        about = {"function": context.function_name, "request_id": context.aws_request_id}
        run = _trace(handler) if config().tracing else handler
        with log.append_context_keys(**about, correlation_id=_find_request_id(event)):
            return run(event, context)

    return named


def _trace(handler: Handler[Event, Result]) -> Handler[Event, Result]:
    """Return the handler with its calls of AWS traced by X-Ray, without its answers."""
    from aws_lambda_powertools.tracing import Tracer

    tracer = Tracer(patch_modules=("botocore",))
    traced: Handler[Event, Result] = tracer.capture_lambda_handler(handler, capture_response=False, capture_error=False)
    return traced


def _find_request_id(event: Any) -> str | None:
    match event:
        case {"requestContext": {"requestId": str(id)}}:
            return id
    return None


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric in the cloud."""

    name: str
    unit: str
    """As CloudWatch names it."""
    dimension: str = ""
    """A second dimension beside `service`, which is that of the stack; "" for none."""


REQUESTS = Metric("Requests", "Count", "code")
BYTES_RECEIVED = Metric("BytesReceived", "Bytes")
BYTES_SENT = Metric("BytesSent", "Bytes")
TASKS_ENDED = Metric("TasksEnded", "Count", "state")
OLDEST_TASK_AGE = Metric("OldestTaskAge", "Seconds")  # of unfinished tasks; not written if there are none
NEWER_RECORDS = Metric("NewerRecords", "Count")  # the set-up met records of a newer program
METRICS = (REQUESTS, BYTES_RECEIVED, BYTES_SENT, TASKS_ENDED, OLDEST_TASK_AGE, NEWER_RECORDS)


def emit(amounts: Mapping[Metric, float], dimension_value: str = "") -> None:
    """Write metrics that have the same value of their dimension, if they have one."""
    if not platform().emits_metrics:
        return
    from aws_lambda_powertools.metrics import EphemeralMetrics  # many starts write no metric

    written = EphemeralMetrics(namespace=NAMESPACE)
    for metric, amount in amounts.items():
        if metric.dimension:
            written.add_dimension(metric.dimension, dimension_value)
        written.add_metric(metric.name, metric.unit, amount)
    written.flush_metrics()


def log_ended_task(id: str, kind: str, state: str) -> None:
    """Log and count a task that ended."""
    log_event("task ended", tid=id, kind=kind, state=state)
    metrics().count(ENDED_TASKS, kind, state)
    emit({TASKS_ENDED: 1}, state)


class RequestLine(NamedTuple):
    """A line of the log about a request."""

    time: float
    """In seconds since the epoch."""
    level: int
    facts: Mapping[str, Any]


class AccessLog:
    """The log of requests.

    Before it is opened each line goes through the logger. After that a thread formats and writes the lines, many in one
    call, so that requests do not wait for it. A process that is killed loses the lines of the last tenth of a second.
    """

    def __init__(self) -> None:
        self._waiting: deque[RequestLine] = deque(maxlen=MAX_WAITING_LINES)
        self._lost = 0
        self._has_lines = threading.Event()
        self._is_closed = threading.Event()
        self._descriptor: int | None = None
        self._writing = threading.Lock()

    def open(self, descriptor: int) -> None:
        """Write to this file from now on, in the format of the logger."""
        self._descriptor = descriptor
        threading.Thread(target=self._run, name="access log", daemon=True).start()

    def log(self, facts: Mapping[str, Any], *, is_detail: bool) -> None:
        """Log a request, with the level DEBUG if `is_detail`."""
        if self._descriptor is None:
            (log_detail if is_detail else log_event)(REQUEST_MESSAGE, **facts)
            return
        level = logging.DEBUG if is_detail else logging.INFO
        if log.log_level > level:
            return
        if len(self._waiting) == MAX_WAITING_LINES:
            self._lost += 1
        self._waiting.append(RequestLine(time.time(), level, facts))
        if not self._has_lines.is_set():
            self._has_lines.set()

    def close(self) -> None:
        """Write the waiting lines; later lines are lost."""
        self._is_closed.set()
        self._has_lines.set()
        if self._descriptor is not None:
            self._write()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._has_lines.wait()
            self._is_closed.wait(ACCESS_LOG_INTERVAL_SECONDS)
            self._has_lines.clear()
            self._write()

    def _write(self) -> None:
        with self._writing:
            lines = [_format(self._waiting.popleft()) for _ in range(len(self._waiting))]
            lost, self._lost = self._lost, 0
            if lost:
                lines.append(_format(RequestLine(time.time(), logging.WARNING, {"lost lines": lost})))
            if lines and self._descriptor is not None:
                with hold_stream():
                    _write_all(self._descriptor, lines)


def _join(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Join lines to texts of at most PIPE_BUF bytes, which are atomic in a pipe to which other processes write too."""
    text = b""
    for line in lines:
        if text and len(text) + len(line) > PIPE_BUF:
            yield text
            text = b""
        text += line
    yield text


def _format(line: RequestLine) -> bytes:
    if isinstance(log.registered_formatter, ReadableFormatter):
        time_text = time.strftime("%H:%M:%S", time.localtime(line.time))
        return f"{_format_text(time_text, logging.getLevelName(line.level), REQUEST_MESSAGE, line.facts)}\n".encode()
    return orjson.dumps(
        {
            "level": logging.getLevelName(line.level),
            "location": "",
            "message": REQUEST_MESSAGE,
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
        pass  # the reader of the log has ended


def open_span(name: str) -> AbstractContextManager[object]:
    """Return a context whose time is a span of the present trace, if there is one."""
    open_in_trace = _span_opener.get()
    return nullcontext() if open_in_trace is None else open_in_trace(name)


def use_spans(open_in_trace: OpenSpan) -> AbstractContextManager[None]:
    """Open spans by this function while the context lasts."""
    return set_in_context(_span_opener, open_in_trace)
