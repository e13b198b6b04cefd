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
        facts = " ".join(f"{key}={value}" for key, value in extra.items())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname} {record.getMessage()} {facts}".rstrip()
        line = line if line.isprintable() else repr(line)[1:-1]  # a path must not command the terminal
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _logger() -> Logger:
    stream = sys.stderr
    if stream.isatty():
        return Logger(service="mangrove", stream=stream, logger_formatter=Readable())
    return Logger(service="mangrove", stream=stream, location="", use_rfc3339=True)


log = _logger()
for _name in ("httpx", "httpcore", "boto3", "botocore", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # below that they tell addresses with their signatures


def tell(message: str, **facts: Any) -> None:
    """An event worth a line; never pass secrets, tokens or query strings."""
    log.info(message, extra={"facts": facts})


def crash(message: str, **facts: Any) -> None:
    """The exception being handled, with its trace."""
    log.exception(message, extra={"facts": facts})
