"""Unfinished files that a storage did not remove when requested: they are removed when it answers again.

Their names are random and belong to abandoned files, so removing one again, or in two processes, is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import InUse, Problem, Unreachable
from mangrove.core.telemetry import log_warning
from mangrove.drivers.base import SharedState

MAX_LEFTOVERS = 500  # names of one storage
REMOVAL_CONCURRENCY = 8
FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0
MAX_MISSING_ATTEMPTS = 2  # at a missing file, though a request of a broken connection may still create it
MAX_ATTEMPTS = 5  # to store the names while other processes store theirs


class Leftovers:
    """The unfinished files of one storage that wait for their removal, also after a restart.

    `remove` removes one, and returns True if it is certainly gone for good. Unreachable: the storage does not answer.
    """

    def __init__(self, state: SharedState, remove: Callable[[TreePath], Awaitable[bool]]) -> None:
        self._state = state
        self._remove = remove
        self._looks: dict[TreePath, int] = {}  # remaining for each name
        self._recorded: set[TreePath] = set()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Continue with the files that an earlier process could not remove."""
        self._run_soon(is_start=True)

    async def stop(self) -> None:
        """Stop; the recorded names wait for the next start."""
        running, self._running = self._running, None
        if running is not None and running.get_loop() is asyncio.get_running_loop():
            running.cancel()
            await asyncio.wait([running])

    async def discard(self, part: TreePath) -> None:
        """Remove an unfinished file, now or when the storage answers again. Never raises a Problem."""
        try:
            if not await finish_despite_cancel(self._remove(part)):
                self._remember(part)
        except Problem as problem:
            self._remember(part)
            await self._record(part)
            log_warning("unfinished file will be removed later", name=part.name, reason=problem.message)

    def _remember(self, part: TreePath) -> None:
        self._looks[part] = MAX_MISSING_ATTEMPTS
        while len(self._looks) > MAX_LEFTOVERS:
            dropped = next(iter(self._looks))
            del self._looks[dropped]
            log_warning("unfinished file not removed: there are too many", name=dropped.name)
        self._run_soon()

    def _run_soon(self, *, is_start: bool = False) -> None:
        running = self._running
        if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
            self._running = asyncio.create_task(self._run(is_start))

    async def _run(self, is_start: bool) -> None:
        seconds = FIRST_RETRY_SECONDS
        if is_start:
            await asyncio.sleep(seconds)
            await self._load()
        while self._looks:
            await asyncio.sleep(seconds)
            is_reachable = await self._remove_all()
            seconds = FIRST_RETRY_SECONDS if is_reachable else min(2 * seconds, MAX_RETRY_SECONDS)

    async def _load(self) -> None:
        try:
            names = parse_names(await self._state.read())
        except Problem:
            return
        self._recorded |= {*names}
        self._looks |= dict.fromkeys(names, 1)

    async def _remove_all(self) -> bool:
        """Remove the files that can be removed. Return False if the storage does not answer."""
        parts = [*self._looks]
        for start in range(0, len(parts), REMOVAL_CONCURRENCY):
            batch = parts[start : start + REMOVAL_CONCURRENCY]
            answers = await asyncio.gather(*map(self._try_to_remove, batch))
            for part in batch:
                if self._looks.get(part) == 0:
                    del self._looks[part]
                    await self._forget(part)
            if not all(answers):
                return False
        return True

    async def _try_to_remove(self, part: TreePath) -> bool:
        """Remove a file and count the attempt. Return False if the storage does not answer."""
        looks = self._looks.get(part, 1)
        try:
            looks = 0 if await self._remove(part) else looks - 1
        except Unreachable:
            return False
        except InUse:
            pass  # the server has not noticed yet that the connection of the upload is closed
        except Problem as problem:
            log_warning("unfinished file not removed", name=part.name, reason=problem.message)
            looks = 0
        self._looks[part] = looks
        return True

    async def _record(self, part: TreePath) -> None:
        self._recorded.add(part)
        await self._change(lambda names: [*names, part][-MAX_LEFTOVERS:])

    async def _forget(self, part: TreePath) -> None:
        if part in self._recorded:
            self._recorded.discard(part)
            await self._change(lambda names: [name for name in names if name != part])

    async def _change(self, change: Callable[[list[TreePath]], list[TreePath]]) -> None:
        try:
            for _ in range(MAX_ATTEMPTS):
                old = await self._state.read()
                names = change(parse_names(old))
                if await self._state.replace(
                    old, orjson.dumps([str(name) for name in names]).decode() if names else ""
                ):
                    return
        except Problem:
            pass  # the records do not answer: this process knows the names nevertheless


def parse_names(text: str) -> list[TreePath]:
    """Return the names in a state; none in the state of another kind of storage."""
    names = orjson.loads(text) if text.startswith("[") else []
    return [TreePath(name) for name in names if isinstance(name, str)]
