"""A server that accepts connections and does not answer: calls fail in seconds, then immediately, until it answers
again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangrove.core.problems import Unreachable
from mangrove.drivers import threads
from mangrove.drivers.s3.driver import S3
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import Bucket, P, run_on_driver
from tests.unit.drivers.s3.proxy import Proxy

MAX_WAIT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHECK_INTERVAL_SECONDS", "PROBE_AFTER_SECONDS", "PROBE_TIMEOUT_SECONDS", "STILL_TIMEOUT_SECONDS"):
        monkeypatch.setattr(threads, name, getattr(threads, name) / 10)


async def stat(driver: S3) -> None:
    await driver.stat(P("/f"))


async def list_names(driver: S3) -> None:
    await actions.names(driver, "/")


async def read(driver: S3) -> None:
    await actions.content(driver, "/f")


async def write(driver: S3) -> None:
    await actions.put(driver, "/new")


@pytest.mark.parametrize("act", [stat, list_names, read, write])
def test_a_server_that_hangs_is_given_up_and_asked_again_when_it_answers(
    proxy: Proxy, bucket_behind: Bucket, act: Callable[[S3], Awaitable[Any]]
) -> None:
    bucket_behind.put("f", content=b"mine")
    goes_on = threading.Event()

    async def work(driver: S3) -> None:
        proxy.before.append(lambda exchange: goes_on.wait(MAX_WAIT_SECONDS) and None)
        with pytest.raises(Unreachable):
            await driver.stat(P("/f"))
        requests_before = len(proxy.seen)
        for _ in range(200):
            with pytest.raises(Unreachable):
                await act(driver)
        assert len(proxy.seen) == requests_before
        goes_on.set()
        end = time.monotonic() + MAX_WAIT_SECONDS
        while time.monotonic() < end:
            try:
                await act(driver)
                return
            except Unreachable:
                await asyncio.sleep(0.05)
        pytest.fail("the storage is not used again")

    run_on_driver(bucket_behind.options(), work)
