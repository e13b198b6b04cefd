"""The cost of many storages: clients, threads and blocks are shared, bounded and released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mangrove.core import runtime
from mangrove.core.problems import StorageProblem
from mangrove.core.runtime import Runtime
from mangrove.drivers.base import BLOCK, DriverContext
from mangrove.drivers.s3 import reading
from mangrove.drivers.s3.clients import Clients
from mangrove.drivers.s3.driver import S3
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, run_on_driver


def test_storages_of_equal_options_share_clients_until_the_last_one_stops(bucket: Bucket) -> None:
    async def work() -> None:
        drivers = [S3(bucket.options(root_folder_path=f"/{number}"), DriverContext()) for number in range(50)]
        other = S3(bucket.options(secret_access_key="other"), DriverContext())
        for driver in (*drivers, other):
            await driver.start()
        assert len({id(driver.client) for driver in drivers}) == 1
        assert other.client is not drivers[0].client
        assert len(runtime.get(Clients)) == 2, "one that waits for a copy is made by the first copy"
        assert await other.call.take_copy_client() is await other.call.take_copy_client() is not other.client
        for driver in drivers[1:]:
            await driver.stop()
            await driver.stop()
        bucket.put("0/f")
        assert (await drivers[0].stat(P("/f"))).size == 1
        await drivers[0].stop()
        assert len(runtime.get(Clients)) == 2  # of the other storage
        await other.stop()
        assert not len(runtime.get(Clients))
        again = S3(bucket.options(), DriverContext())
        await again.start()
        assert again.client is not drivers[0].client
        await again.stop()

    with runtime.use(Runtime()):
        asyncio.run(work())


def test_a_storage_that_cannot_start_keeps_no_client(bucket: Bucket) -> None:
    options = bucket.options(custom_host="http://[broken", enable_custom_host_presign=True)

    async def work() -> None:
        with pytest.raises(StorageProblem):
            await S3(options, DriverContext()).start()
        assert not len(runtime.get(Clients))

    with runtime.use(Runtime()):
        asyncio.run(work())


async def read_slowly(blocks: AsyncIterator[bytes], seconds: float) -> list[int]:
    sizes = []
    async for block in blocks:
        sizes.append(len(block))
        await asyncio.sleep(seconds)
    return sizes


def test_a_slow_reader_holds_small_blocks_and_a_fast_one_gets_large_ones(bucket: Bucket) -> None:
    bucket.put("f", content=bytes(9 * MIB))
    bucket.put("g", content=bytes(MIB))

    async def work(driver: S3) -> tuple[list[int], list[int]]:
        fast = await read_slowly(await driver.read(P("/f")), 0)
        return fast, await read_slowly(await driver.read(P("/g")), 2 * reading.SLOW_BLOCK_SECONDS)

    fast, slow = run_on_driver(bucket.options(), work)
    assert (sum(fast), sum(slow)) == (9 * MIB, MIB)
    assert max(fast) <= BLOCK
    assert max(slow) == reading.SMALL_BLOCK
