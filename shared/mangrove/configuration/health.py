"""The health of the service, for monitors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_exception
from mangrove.records import settings
from mangrove.records.store import versions
from mangrove.records.store.base import connections

MAX_CHECK_SECONDS = 2.0  # a check that takes longer has failed
MIN_CHECK_INTERVAL_SECONDS = 1.0  # between two runs of the same check
HEALTH_THREADS = 4  # an own pool: the threads for requests may all wait for a service that does not answer


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the health."""

    reason: str
    """The public reason, reported if the check fails, raises or takes too long."""
    fails: Callable[[], bool]
    """Called in a thread."""


class _RunningCheck:
    """A check and its last run."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._future: Future[bool] | None = None
        self._began = 0.0
        self.max_seconds = platform().first_check_seconds

    def begin(self, threads: ThreadPoolExecutor) -> Future[bool]:
        """Return the present or a recent run, or start another."""
        now = time.monotonic()
        if self._future is None or (self._future.done() and now - self._began > MIN_CHECK_INTERVAL_SECONDS):
            self._future, self._began = threads.submit(self.check.fails), now
        return self._future


class Health:
    """The checks of this process: those of the records, and those that a deployment adds."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(HEALTH_THREADS, "health")
        self._checks = [
            _RunningCheck(Check("the records do not answer", are_records_away)),
            _RunningCheck(Check("settings were written by another program", are_settings_refused)),
        ]

    def add(self, check: Check) -> None:
        """Add a check."""
        self._checks.append(_RunningCheck(check))

    async def find_faults(self) -> list[str]:
        """Return the reasons of the checks that fail, within the time limit of a check."""
        failures = await asyncio.gather(*(self._is_failing(running) for running in self._checks))
        return [running.check.reason for running, fails in zip(self._checks, failures, strict=True) if fails]

    async def _is_failing(self, running: _RunningCheck) -> bool:
        future = running.begin(self._threads)
        await asyncio.wait({asyncio.wrap_future(future)}, timeout=running.max_seconds)
        if not future.done():
            return True
        running.max_seconds = MAX_CHECK_SECONDS
        try:
            return future.result()
        except Exception:  # a check that raises has failed
            log_exception("health check failed", reason=running.check.reason)
            return True

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def are_records_away() -> bool:
    """True if a record cannot be read."""
    try:
        versions.get_version()
    except Problem:
        return True
    return False


def are_settings_refused() -> bool:
    """True if settings have their defaults because their records were refused."""
    return connections().refused.has(settings.KIND)


async def find_faults() -> list[str]:
    """Return the reasons why the service is not healthy; empty if it is healthy."""
    return await runtime.get(Health).find_faults()
