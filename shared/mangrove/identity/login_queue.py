"""The queue of work that hashes passwords: bounded, fair between addresses, in threads that nothing else needs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mangrove.core.problems import TooMany
from mangrove.core.sources import find_source
from mangrove.identity.passwords import MAX_CONCURRENT

Result = TypeVar("Result")
MAX_WAITING = 256  # requests, in all; at some 30 ms each the last one waits a few seconds
RETRY_SECONDS = 5  # after which a queue that was full has been worked off
FULL = "too many sign-ins at the same time, try again later"


class LoginQueue:
    """Runs MAX_CONCURRENT calls at once; the others wait, and addresses take turns.

    Where MAX_WAITING wait, the address with the most of them gives way to one with fewer: its last call is refused.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, "login")
        self._running = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by place, whose turn is first

    async def run(self, source: str, call: Callable[[], Result]) -> Result:
        """What `call` returns, which runs in a thread; TooMany when too many wait."""
        if self._running >= MAX_CONCURRENT:
            await self._wait_for_turn(find_source(source))  # whoever ended handed its place over
        else:
            self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        finally:
            self._hand_over()

    async def _wait_for_turn(self, place: str) -> None:
        if sum(map(len, self._waiting.values())) >= MAX_WAITING:
            self._make_room(place)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(place, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand_over()
            raise

    def _make_room(self, place: str) -> None:
        """Refuse the last call of the address with the most; TooMany when that is this one."""
        longest = max(self._waiting, key=lambda other: len(self._waiting[other]))
        if len(self._waiting[longest]) <= len(self._waiting.get(place, ())) + 1:
            raise TooMany(FULL, retry_after=RETRY_SECONDS)
        refused = self._waiting[longest].pop()
        if not refused.done():
            refused.set_exception(TooMany(FULL, retry_after=RETRY_SECONDS))

    def _hand_over(self) -> None:
        """Let the next address that waits have the place of a call that ended."""
        while self._waiting:
            place, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[place] = turns  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def close(self) -> None:
        """End the threads once they have nothing to do."""
        self._threads.shutdown(wait=False)
