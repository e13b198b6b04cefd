"""Bandwidth limits. All streams of a kind share a limit.

The processes of one computer that have such streams share it in equal parts; in the cloud each instance has the whole
limit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core import metering, runtime
from mangrove.core.metering import Stage
from mangrove.core.shared_memory import Activity, activity_times

MIN_PIECE_BYTES, MAX_PIECE_BYTES = 1 << 10, 1 << 20  # bytes that pass together
PIECES_PER_SECOND = 8  # of a stream, so that streams take turns
RECHECK_INTERVAL_SECONDS = 1.0  # after which a waiting stream reads the rate once more

Rate = Callable[[], int | None]  # bytes per second, None for no limit


class TokenBucket:
    """A rate in bytes per second that several streams share; pieces pass in the order of the requests.

    An idle bucket saves up one piece at most. With an activity, the processes of the computer that recorded it lately
    share the rate in equal parts. It is safe to use from the event loops of several threads.
    """

    def __init__(self, rate: Rate, activity: Activity | None = None) -> None:
        self._limit = rate
        self._activity = activity
        self._times = activity_times()
        self._debt = 0.0  # bytes that have passed or wait, beyond the rate
        self._counted = time.monotonic()
        self._lock = threading.Lock()  # held for a calculation, never during a wait

    def rate(self) -> int | None:
        """Return this process's part of the rate, None for no limit."""
        limit = self._limit()
        if limit is None or self._activity is None:
            return limit
        return max(1, limit // max(1, self._times.count_active(self._activity)))

    def _reserve(self, size: int, rate: int) -> float:
        """Return the time at which `size` bytes may pass."""
        with self._lock:
            now = time.monotonic()
            before = max(0.0, self._debt - (now - self._counted) * rate)
            self._debt, self._counted = before + size, now
            return now + before / rate

    def _join(self) -> int | None:
        """Return the rate, and count this process as one that shares it."""
        if self._activity is not None:
            self._times.record(self._activity)
        return self.rate()

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._debt -= size

    async def take(self, size: int, report: Callable[[int], None] = lambda count: None) -> None:
        """Wait until `size` bytes may pass. `report` is called with the bytes of each piece that has waited."""
        while size > 0 and (rate := self._join()) is not None:
            piece = min(size, get_piece_size(rate))
            await self._take_piece(piece, rate)
            report(piece)
            size -= piece

    async def _take_piece(self, size: int, rate: int) -> None:
        due = self._reserve(size, rate)
        try:
            while self._join() == rate:
                left = due - time.monotonic()
                if left <= 0:
                    return
                await asyncio.sleep(min(left, RECHECK_INTERVAL_SECONDS))
        except asyncio.CancelledError:
            self._give_back(size)  # other streams do not wait for a stream that has ended
            raise


def get_piece_size(rate: int) -> int:
    """Return the maximum size of a piece at this rate, in bytes."""
    return max(MIN_PIECE_BYTES, min(rate // PIECES_PER_SECOND, MAX_PIECE_BYTES))


class LimitedBody:
    """A body limited to the rate of a bucket. Closing it closes the source, also before the first block."""

    def __init__(self, source: AsyncIterator[bytes], bucket: TokenBucket) -> None:
        self._source = source
        self._bucket = bucket
        self._rest = b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        rate = self._bucket.rate()
        block = self._rest or await anext(self._source)
        size = len(block) if rate is None else min(len(block), get_piece_size(rate))
        await self._bucket.take(size)
        self._rest = block[size:]
        return block[:size]

    async def aclose(self) -> None:
        source: Any = self._source
        if hasattr(source, "aclose"):
            await source.aclose()


class Throttles:
    """The four bandwidth limits.

    `client`: between HTTP clients and the service; `server`: between the service and the storages, for tasks. The
    direction is that of the client; towards a storage the service is the client.
    """

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
    return lambda: select(configuration.cached().settings) if configuration.is_loaded() else None


def _throttles() -> Throttles:
    return runtime.get(Throttles)


def _limit(body: AsyncIterator[bytes], bucket: TokenBucket) -> AsyncIterator[bytes]:
    """Return the body with a limit, or the body itself if there is no limit now."""
    return body if bucket.rate() is None else LimitedBody(body, bucket)


def limit_client_download(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Limit the bytes that an HTTP client receives."""
    return _limit(body, _throttles().client_download)


def limits_client_downloads() -> bool:
    """True if there is a limit for the bytes that HTTP clients receive."""
    return _throttles().client_download.rate() is not None


def limit_client_upload(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Limit the bytes that an HTTP client sends."""
    return _limit(body, _throttles().client_upload)


def limit_server_download(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Limit the bytes that a task reads from a storage or an address."""
    return _limit(body, _throttles().server_download)


def limit_server_upload(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Limit the bytes that a task stores."""
    return _limit(body, _throttles().server_upload)


async def wait_for_copy(size: int) -> None:
    """Wait until a task may copy `size` bytes from one storage to another; they count in both directions."""
    throttles, meter = _throttles(), metering.get_meter()
    stages: tuple[tuple[TokenBucket, Stage], ...] = (
        (throttles.server_download, "received"),
        (throttles.server_upload, "sent"),
    )
    for bucket, stage in stages:
        await bucket.take(size, partial(meter.add, stage=stage))
