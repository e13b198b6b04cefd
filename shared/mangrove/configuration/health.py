"""Whether the service can do its work, as a monitor wants to know it."""

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
from mangrove.records.store import encryption, versions

ANSWER_SECONDS = 2.0  # a look that takes longer counts as a failed one
FRESH_SECONDS = 1.0  # nobody causes more than one look in this time
THREADS = 4  # of its own: those of the requests may all wait for what does not answer


@dataclass(frozen=True, slots=True)
class Check:
    """`fails` looks, in a thread; `reason` is what strangers may know when it is True, raises or takes too long."""

    reason: str
    fails: Callable[[], bool]


class _Look:
    """A check, and its last look at things."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._future: Future[bool] | None = None
        self._began = 0.0
        self.patience = platform().first_check_seconds

    def begin(self, threads: ThreadPoolExecutor) -> Future[bool]:
        """A look that is under way or fresh, or a new one."""
        now = time.monotonic()
        if self._future is None or (self._future.done() and now - self._began > FRESH_SECONDS):
            self._future, self._began = threads.submit(self.check.fails), now
        return self._future


class Health:
    """The checks of this process: the records, and what a deployment adds."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "health")
        self._looks = [
            _Look(Check("the records do not answer", are_records_away)),
            _Look(Check("settings were written by another program", are_settings_refused)),
        ]

    def add(self, check: Check) -> None:
        """Look at this too."""
        self._looks.append(_Look(check))

    async def find_faults(self) -> list[str]:
        """The reasons why the service is not well, none when it is; within the patience of a look, whatever hangs."""
        found = await asyncio.gather(*(self._is_failing(look) for look in self._looks))
        return [look.check.reason for look, is_failing in zip(self._looks, found, strict=True) if is_failing]

    async def _is_failing(self, look: _Look) -> bool:
        future = look.begin(self._threads)
        await asyncio.wait({asyncio.wrap_future(future)}, timeout=look.patience)
        if not future.done():
            return True
        look.patience = ANSWER_SECONDS
        try:
            return future.result()
        except Exception:  # a check that breaks tells nothing good
            log_exception("a check of the health failed", reason=look.check.reason)
            return True

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def are_records_away() -> bool:
    """Whether a record cannot be read."""
    try:
        versions.get_version()
    except Problem:
        return True
    return False


def are_settings_refused() -> bool:
    """Whether settings have their defaults because what is in the records is not to be trusted."""
    return encryption.refused_records().has(settings.KIND)


async def find_faults() -> list[str]:
    """The reasons why the service is not well, none when it is."""
    return await runtime.get(Health).find_faults()
