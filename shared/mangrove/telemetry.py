"""One logger for the service: JSON lines in the cloud and in files, readable lines on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter


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
