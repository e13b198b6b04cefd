"""The descriptions of services that botocore has, and the names of its events, made once per process.

Every session of botocore reads the descriptions again. For S3 that takes 0.1 s of CPU, and tests make thousands of
sessions. Every client makes the names again, a quarter of the time that a client takes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from botocore.hooks import EventAliaser, HierarchicalEmitter
from botocore.loaders import JSONFileLoader


class UnsharedFileLoader(JSONFileLoader):
    """Reads a description each time. moto changes those that it gets."""

    load_file = JSONFileLoader.load_file


class UnsharedAliaser(EventAliaser):
    """Makes the name of an event each time."""

    _alias_event_name = EventAliaser._alias_event_name


@cache
def _load_once(path: str) -> Any:
    return UnsharedFileLoader().load_file(path)


@cache
def _make_alias_once(name: str) -> Any:
    return UnsharedAliaser(HierarchicalEmitter())._alias_event_name(name)


def share() -> None:
    """Let all sessions and clients of this process share what the first one reads."""
    JSONFileLoader.load_file = lambda _loader, path: _load_once(path)
    EventAliaser._alias_event_name = lambda _aliaser, event_name: _make_alias_once(event_name)
