"""The event bus of the deployment, for rules of the people who run it. An event may arrive twice."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mangrove.core import aws
from mangrove.core.problems import Problem

MAX_EVENTS_PER_CALL = 10  # of PutEvents
SOURCE = "mangrove"


def announce(type: str, details: Sequence[Mapping[str, Any]]) -> None:
    """Put an event of each of `details` on the bus. Raise Problem if one was not taken."""
    entries = [
        {
            "Source": SOURCE, "DetailType": type, "EventBusName": os.environ["MANGROVE_EVENT_BUS"],
            "Detail": orjson.dumps(detail).decode(),
        }
        for detail in details
    ]  # fmt: skip
    for start in range(0, len(entries), MAX_EVENTS_PER_CALL):
        _put(entries[start : start + MAX_EVENTS_PER_CALL])


def _put(entries: Sequence[Mapping[str, Any]]) -> None:
    answer = aws.create_client("events").put_events(Entries=entries)
    if answer["FailedEntryCount"]:
        raise Problem(f"{answer['FailedEntryCount']} events of {len(entries)} were not taken")
