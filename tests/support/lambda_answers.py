"""Metrics and log lines that functions write beside their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.runtime_api import Function


def read_lines(function: Function) -> Iterator[dict[str, Any]]:
    """The JSON objects in its log."""
    for line in function.read_log().splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def read_metrics(function: Function, name: str) -> list[dict[str, Any]]:
    """Return the values of a metric, as CloudWatch reads them."""
    return [line for line in read_lines(function) if name in line and "_aws" in line]
