"""The descriptions of services that botocore has, read once per process.

Every session of botocore reads them again. For S3 that takes 0.1 s of CPU, and tests make thousands of sessions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from botocore.loaders import JSONFileLoader


class UnsharedFileLoader(JSONFileLoader):
    """Reads a description each time. moto changes those that it gets."""

    load_file = JSONFileLoader.load_file


@cache
def _load_once(path: str) -> Any:
    return UnsharedFileLoader().load_file(path)


def share() -> None:
    """Let all sessions of this process share what the first one reads."""
    JSONFileLoader.load_file = lambda _loader, path: _load_once(path)
