"""One logger for the service: JSON lines in the cloud and in files, readable lines on a terminal. In the cloud metrics
as well, as lines on standard output from which CloudWatch makes them (Embedded Metric Format)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from mangrove.core.config import config
from mangrove.core.platform import platform

NAMESPACE = "Mangrove"
Event = TypeVar("Event")
Result = TypeVar("Result")
Handler = Callable[[Event, Any], Result]
"""Of a function: event and context in; the context is None on one machine."""


class Readable(LambdaPowertoolsFormatter):
    """`12:30:01 INFO message key=value …` for people."""

    def format(self, record: logging.LogRecord) -> str:
        extra = getattr(record, "facts", {})
        fields = " ".join(f"{key}={value}" for key, value in extra.items())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname} {record.getMessage()} {fields}".rstrip()
        line = line if line.isprintable() else repr(line)[1:-1]  # a path must not control the terminal
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _make_logger() -> Logger:
    stream = sys.stderr
    if stream.isatty():
        return Logger(service="mangrove", stream=stream, logger_formatter=Readable())
    return Logger(service="mangrove", stream=stream, location="", use_rfc3339=True)


log = _make_logger()
for _name in ("httpx", "httpcore", "boto3", "botocore", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # below that they log addresses with their signatures


def set_level(level: str) -> None:
    """From which level on there are lines."""
    log.setLevel(level)


@contextmanager
def hold_stream() -> Iterator[None]:
    """While it lasts nothing else writes to the log's stream."""
    handler = log.registered_handler
    handler.acquire()
    try:
        handler.flush()
        yield
    finally:
        handler.release()


def log_detail(message: str, **fields: Any) -> None:
    """Log what is of use when a fault is looked for; as `log_event` otherwise."""
    log.debug(message, extra={"facts": fields})


def log_event(message: str, **fields: Any) -> None:
    """Log an event; never pass secrets, tokens or query strings."""
    log.info(message, extra={"facts": fields})


def log_warning(message: str, **fields: Any) -> None:
    """Log what an operator should look at; as `log_event` otherwise."""
    log.warning(message, extra={"facts": fields})


def log_exception(message: str, **fields: Any) -> None:
    """Log the exception being handled, with its trace."""
    log.exception(message, extra={"facts": fields})


def name_invocation(handler: Handler[Event, Result]) -> Handler[Event, Result]:
    """The handler of a function, whose log names the invocation in every line: function, request id, and what the API's
    own log calls the request. A function handles one event at a time."""

    def named(event: Event, context: Any) -> Result:
        if context is None:  # on one machine
            return handler(event, context)
        about = {"function": context.function_name, "request_id": context.aws_request_id}
        run = _trace(handler) if config().tracing else handler
        with log.append_context_keys(**about, correlation_id=_find_request_id(event)):
            return run(event, context)

    return named


def _trace(handler: Handler[Event, Result]) -> Handler[Event, Result]:
    """The handler, whose calls of AWS are shown by X-Ray; what it answers is not."""
    from aws_lambda_powertools import Tracer

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
    """What is measured in the cloud. `dimension`: by what it is told apart within a stack, whose own is `service`."""

    name: str
    unit: MetricUnit
    dimension: str = ""


REQUESTS = Metric("Requests", MetricUnit.Count, "code")
BYTES_RECEIVED = Metric("BytesReceived", MetricUnit.Bytes)
BYTES_SENT = Metric("BytesSent", MetricUnit.Bytes)
TASKS_ENDED = Metric("TasksEnded", MetricUnit.Count, "state")
OLDEST_TASK_AGE = Metric("OldestTaskAge", MetricUnit.Seconds)  # of those that are not done; 0 without any
METRICS = (REQUESTS, BYTES_RECEIVED, BYTES_SENT, TASKS_ENDED, OLDEST_TASK_AGE)


def emit(amounts: Mapping[Metric, float], told_apart: str = "") -> None:
    """Write metrics of one dimension; `told_apart`: its value, where they have one."""
    if not platform().emits_metrics:
        return
    written = EphemeralMetrics(namespace=NAMESPACE)
    for metric, amount in amounts.items():
        if metric.dimension:
            written.add_dimension(metric.dimension, told_apart)
        written.add_metric(metric.name, metric.unit, amount)
    written.flush_metrics()
