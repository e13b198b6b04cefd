"""A worker that reads one record and writes one log line."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools import Logger
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model


class Row(Model):
    """A row of the settings."""

    class Meta:
        table_name = dict(pair.split("=") for pair in os.environ["MANGROVE_TABLES"].split(","))["settings"]
        host = os.environ["AWS_ENDPOINT_URL_DYNAMODB"]
        region = os.environ["AWS_REGION"]

    key = UnicodeAttribute(hash_key=True)


def read() -> bool:
    """Return True if a row exists."""
    return next(iter(Row.batch_get(["site_title"])), None) is not None


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return the answer to an event."""
    record = read()
    Logger().info("read")
    return {"found": record}
