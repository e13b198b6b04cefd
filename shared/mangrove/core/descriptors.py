"""The file descriptors of this process: the number of free ones, and the wait for one."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

from mangrove.core.telemetry import log_warning

Parameters = ParamSpec("Parameters")

MAX_DESCRIPTORS = 1 << 20  # if the system sets no limit
LOW_DESCRIPTORS = 4096
EXHAUSTED = (errno.EMFILE, errno.ENFILE)  # of the process, of the system
MAX_RESERVED_DESCRIPTORS = 64  # that bulk work leaves to requests, connections and the records
BULK_WAIT_SECONDS = 30.0
OPEN_WAIT_SECONDS = 5.0  # less than a call of a storage may stand still
POLL_INTERVAL_SECONDS = 0.05
FOLDER = "/proc/self/fd"


def raise_limit() -> int:
    """Let this process open as many files and connections as the system allows; return their number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):
        return soft  # a system with a lower limit than it reports
    return limit


def raise_limit_at_start() -> None:
    """Raise the limit of the first process, which the others inherit, and log it if it is low."""
    limit = raise_limit()
    if limit < LOW_DESCRIPTORS:
        log_warning("hard limit of open files is low: work waits for free descriptors", files=limit)


def count_free_for_bulk() -> int:
    """Return the number of descriptors that bulk work may use, below 0 while it has to wait."""
    limit = get_limit()
    return limit - _count_open() - _get_reserve(limit)


def are_short() -> bool:
    """True if more than half of the reserve is taken."""
    limit = get_limit()
    return limit - _count_open() < _get_reserve(limit) // 2


def get_limit() -> int:
    """Return the number of files and connections that this process may open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit


def _get_reserve(limit: int) -> int:
    return min(MAX_RESERVED_DESCRIPTORS, limit // 8)


def _count_open() -> int:
    with suppress(OSError):  # unknown on a system without this folder
        return os.stat(FOLDER).st_size or len(os.listdir(FOLDER))  # the size is the count since Linux 6.2
    return 0


async def wait_for_bulk() -> None:
    """Wait until bulk work may use descriptors, at most BULK_WAIT_SECONDS. Opening a file may still fail."""
    end = time.monotonic() + BULK_WAIT_SECONDS
    while count_free_for_bulk() <= 0 and time.monotonic() < end:  # noqa: ASYNC110 - nothing signals a free descriptor
        await asyncio.sleep(POLL_INTERVAL_SECONDS)


def open_patiently(function: Callable[Parameters, int], *args: Parameters.args, **kwargs: Parameters.kwargs) -> int:
    """Return the handle that a function opens.

    While there is no free descriptor, it is called again for OPEN_WAIT_SECONDS; it blocks.
    """
    end: float | None = None
    while True:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            end = end or time.monotonic() + OPEN_WAIT_SECONDS
            if time.monotonic() > end:
                raise
        time.sleep(POLL_INTERVAL_SECONDS)
