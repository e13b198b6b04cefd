"""The limits of speed in the settings, each shared by all streams: of the processes of one machine those with streams
have equal parts of it, in the cloud each instance has all of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from mangrove.configuration import snapshot
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.shared_memory import Activity, ActivityTimes

LARGEST, SMALLEST = 1 << 20, 1 << 10  # bytes that pass at once
PIECES = 8  # that pass in a second, so that many streams take turns
RECHECK_SECONDS = 1.0  # after which a stream that waits looks whether the limit is still the same

Rate = Callable[[], int | None]  # bytes a second, None for no limit


class TokenBucket:
    """Lets bytes pass at a rate, those of every stream in turn: each waits for the pieces that were asked for before.

    It is empty when idle: nothing is saved up for a burst but one piece. Used from the event loops of several threads;
    the lock is held for a calculation, never while something waits.
    """

    def __init__(
        self, rate: Rate, clock: Callable[[], float] = time.monotonic, activity: Activity | None = None
    ) -> None:
        self._limit = rate
        self._activity = activity
        self._times = runtime.get(ActivityTimes)
        self._clock = clock
        self._debt = 0.0  # bytes that were let pass, or wait, and whose time is still to come
        self._counted = clock()
        self._lock = threading.Lock()

    def rate(self) -> int | None:
        """This process's part of the limit, None when there is none."""
        limit = self._limit()
        if limit is None or self._activity is None:
            return limit
        return max(1, limit // max(1, self._times.count_active(self._activity)))

    def _reserve(self, size: int, rate: int) -> float:
        """The time at which `size` bytes may pass."""
        with self._lock:
            now = self._clock()
            before = max(0.0, self._debt - (now - self._counted) * rate)
            self._debt, self._counted = before + size, now
            return now + before / rate

    def _join(self) -> int | None:
        """The rate, of which this process has its part as it waits for it."""
        if self._activity is not None:
            self._times.note(self._activity)
        return self.rate()

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._debt -= size

    async def take(self, size: int) -> None:
        """Wait until `size` bytes may pass."""
        while size > 0 and (rate := self._join()) is not None:
            piece = min(size, get_piece(rate))
            await self._take_piece(piece, rate)
            size -= piece

    async def _take_piece(self, size: int, rate: int) -> None:
        due = self._reserve(size, rate)
        try:
            while self._join() == rate:
                left = due - self._clock()
                if left <= 0:
                    return
                await asyncio.sleep(min(left, RECHECK_SECONDS))
        except asyncio.CancelledError:
            self._give_back(size)  # who has gone does not keep others waiting
            raise


def get_piece(rate: int) -> int:
    """The most bytes that pass at once at this rate."""
    return max(SMALLEST, min(rate // PIECES, LARGEST))


class LimitedBody:
    """A body that is as fast as a bucket lets it be; closing it closes the source, begun or not."""

    def __init__(self, source: AsyncIterator[bytes], bucket: TokenBucket) -> None:
        self._source = source
        self._bucket = bucket
        self._rest = b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        rate = self._bucket.rate()
        block = self._rest or await anext(self._source)
        size = len(block) if rate is None else min(len(block), get_piece(rate))
        await self._bucket.take(size)
        self._rest = block[size:]
        return block[:size]

    async def aclose(self) -> None:
        source: Any = self._source
        if hasattr(source, "aclose"):
            await source.aclose()


class Throttles:
    """The four limits. `client`: between HTTP clients and this process, `server`: between it and the storages, of
    what tasks do; up and down as the client or the storage's client sees it."""

    def __init__(self) -> None:
        self.client_download = TokenBucket(
            _make_rate(lambda settings: settings.max_client_download_speed), activity=Activity.CLIENT_DOWNLOADS
        )
        self.client_upload = TokenBucket(
            _make_rate(lambda settings: settings.max_client_upload_speed), activity=Activity.CLIENT_UPLOADS
        )
        self.server_download = TokenBucket(_make_rate(lambda settings: settings.max_server_download_speed))
        self.server_upload = TokenBucket(_make_rate(lambda settings: settings.max_server_upload_speed))


def _make_rate(select: Callable[[Settings], int | None]) -> Rate:
    return lambda: select(snapshot.current().settings) if snapshot.is_loaded() else None


def _limit(body: AsyncIterator[bytes], bucket: TokenBucket) -> AsyncIterator[bytes]:
    """The same body without any cost where there is no limit when it begins."""
    return body if bucket.rate() is None else LimitedBody(body, bucket)


def limit_client_download(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Bytes on their way to an HTTP client."""
    return _limit(body, runtime.get(Throttles).client_download)


def limits_client_downloads() -> bool:
    """Whether bytes on their way to HTTP clients have to wait."""
    return runtime.get(Throttles).client_download.rate() is not None


def limit_client_upload(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Bytes that an HTTP client sends."""
    return _limit(body, runtime.get(Throttles).client_upload)


def limit_server_download(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Bytes that a task reads from a storage or an address."""
    return _limit(body, runtime.get(Throttles).server_download)


def limit_server_upload(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Bytes that a task stores."""
    return _limit(body, runtime.get(Throttles).server_upload)


async def wait_for_copy(size: int) -> None:
    """Until a task may copy `size` bytes: what is read from one storage and stored in another counts on both sides."""
    throttles = runtime.get(Throttles)
    await throttles.server_download.take(size)
    await throttles.server_upload.take(size)
