"""The limits of speed in the settings, each shared by all streams: of the processes of one machine those with streams
have equal parts of it, in the cloud each instance has all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from mangrove.configuration import snapshot
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.shared_memory import Activity
from mangrove.core.token_bucket import Rate, TokenBucket, get_piece_size


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
        size = len(block) if rate is None else min(len(block), get_piece_size(rate))
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
