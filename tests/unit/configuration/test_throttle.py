"""The limits of speed: shared, fair, and without cost where there is none."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from mangrove import configuration
from mangrove.configuration import throttle
from mangrove.configuration.throttle import (
    MAX_PIECE_BYTES,
    MIN_PIECE_BYTES,
    LimitedBody,
    Throttles,
    TokenBucket,
    get_piece_size,
)
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.chunked import stream
from mangrove.core.shared_memory import Activity
from mangrove.records import settings as records
from tests.support.sharing import share_runtimes

RATE = 1 << 20
PIECE = get_piece_size(RATE)


async def collect(body: AsyncIterator[bytes]) -> list[bytes]:
    return [block async for block in body]


def test_bytes_pass_at_the_rate_and_all_of_them() -> None:
    content = bytes(range(256)) * 1024
    began = time.monotonic()
    blocks = asyncio.run(collect(LimitedBody(stream(content), TokenBucket(lambda: RATE))))
    assert time.monotonic() - began >= (len(content) - PIECE) / RATE
    assert b"".join(blocks) == content
    assert max(map(len, blocks)) == PIECE


def test_streams_take_turns_so_small_one_is_not_delayed() -> None:
    ended: list[str] = []

    async def take(bucket: TokenBucket, name: str, size: int) -> None:
        await bucket.take(size)
        ended.append(name)

    async def both() -> None:
        bucket = TokenBucket(lambda: RATE)
        large = asyncio.create_task(take(bucket, "large", 4 * PIECE))
        await asyncio.sleep(0)
        await asyncio.gather(take(bucket, "small", PIECE), large)

    asyncio.run(both())
    assert ended == ["small", "large"]


def test_streams_of_several_threads_share_the_rate() -> None:
    bucket = TokenBucket(lambda: RATE)
    began = time.monotonic()
    threads = [threading.Thread(target=lambda: asyncio.run(bucket.take(PIECE))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began >= 2 * PIECE / RATE


def test_who_has_gone_does_not_keep_others_waiting() -> None:
    async def leave() -> float:
        bucket = TokenBucket(lambda: RATE)
        await bucket.take(PIECE)
        waiting = [asyncio.create_task(bucket.take(PIECE)) for _ in range(1000)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        began = time.monotonic()
        await bucket.take(PIECE)
        return time.monotonic() - began

    assert asyncio.run(leave()) < 1000 * PIECE / RATE / 2  # those who left would have cost two minutes


def test_who_waits_is_let_go_when_the_limit_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[int | None] = [MIN_PIECE_BYTES]
    monkeypatch.setattr(throttle, "RECHECK_INTERVAL_SECONDS", 0.01)

    async def lift() -> None:
        body = LimitedBody(stream(bytes(60 * MIN_PIECE_BYTES)), TokenBucket(lambda: rates[0]))
        reading = asyncio.create_task(collect(body))
        await asyncio.sleep(0)
        rates[0] = None
        assert len(b"".join(await reading)) == 60 * MIN_PIECE_BYTES

    began = time.monotonic()
    asyncio.run(lift())
    assert time.monotonic() - began < 30  # of sixty seconds


def test_a_body_that_is_closed_before_its_first_block_closes_its_source() -> None:
    class Source:
        closed = False

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError

        async def aclose(self) -> None:
            self.closed = True

    source = Source()
    asyncio.run(LimitedBody(source, TokenBucket(lambda: RATE)).aclose())
    assert source.closed


def test_a_piece_is_an_eighth_of_a_second_within_bounds() -> None:
    assert [get_piece_size(rate) for rate in (1, 80 << 10, 1 << 40)] == [MIN_PIECE_BYTES, 10 << 10, MAX_PIECE_BYTES]


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("max_client_download_speed", throttle.limit_client_download),
        ("max_client_upload_speed", throttle.limit_client_upload),
        ("max_server_download_speed", throttle.limit_server_download),
        ("max_server_upload_speed", throttle.limit_server_upload),
    ],
)
@pytest.mark.usefixtures("records")
def test_each_setting_limits_one_way_and_none_costs_anything(key: str, limit: object) -> None:
    assert callable(limit)
    for value, is_limited in (("-1", False), ("0", False), ("", False), ("3", True)):
        records.save({key: value})
        configuration.get_sync()
        body = stream(b"x")
        assert (limit(body) is not body) == is_limited
        buckets = vars(runtime.get(Throttles))
        rates = {name: bucket.rate() for name, bucket in buckets.items()}
        limited = key.removeprefix("max_").removesuffix("_speed")
        assert rates == dict.fromkeys(buckets) | ({limited: 3 << 10} if is_limited else {})


def test_without_a_configuration_there_is_no_limit() -> None:
    body = stream(b"x")
    assert throttle.limit_client_download(body) is body
    assert Settings({}).max_client_download_speed is None


def test_processes_with_streams_have_equal_parts_of_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)  # a stream counts for a second after its last piece
    buckets = []
    for process_runtime in share_runtimes(2):
        with runtime.use(process_runtime):
            buckets.append(TokenBucket(lambda: RATE, activity=Activity.CLIENT_DOWNLOADS))
    first, second = buckets
    assert first.rate() == RATE
    asyncio.run(first.take(1))
    assert first.rate() == second.rate() == RATE
    asyncio.run(second.take(1))
    assert first.rate() == second.rate() == RATE // 2
