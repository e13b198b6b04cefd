"""Listings, on opendal's storage in memory, which has no folders."""

from __future__ import annotations

import asyncio

from opendal import AsyncOperator

from mangrove.core.paths import TreePath, is_valid_name
from mangrove.drivers import base
from mangrove.drivers.base import DriverContext, DriverProperties
from mangrove.drivers.clouds.driver import LISTING_BATCH_ENTRIES
from mangrove.drivers.clouds.kinds import WritableCloud
from mangrove.drivers.options import Options, option


class MemoryOptions(Options):
    root_folder_path: str = option("/")


class Memory(WritableCloud):
    name = "Memory"
    Options = MemoryOptions
    config = DriverProperties()
    scheme = "memory"

    def build_operator(self) -> AsyncOperator:
        self.operator = super().build_operator()
        return self.operator


def test_a_long_listing_comes_in_batches_and_without_the_folder_itself() -> None:
    async def used() -> None:
        driver = Memory(MemoryOptions(root_folder_path="/"), DriverContext(modified=7.0))
        await driver.start()
        for name in [
            "d/",
            *(f"d/{number:05}" for number in range(2 * LISTING_BATCH_ENTRIES + 10)),
            "d/sub/f",
            "d/control\x01",
            "e",
        ]:
            if name.endswith("/"):
                await driver.operator.create_dir(name)
            else:
                await driver.operator.write(name, b"x")
        batches = [batch async for batch in driver.list(TreePath("/d"))]
        assert [len(batch) for batch in batches[:2]] == [LISTING_BATCH_ENTRIES, LISTING_BATCH_ENTRIES]
        entries = {entry.name: entry for batch in batches for entry in batch}
        assert len(entries) == 2 * LISTING_BATCH_ENTRIES + 11
        assert entries["sub"] == base.Entry("sub", 0, 7.0, True)
        assert (await driver.stat(TreePath("/d/sub"))).is_dir

    asyncio.run(used())


def test_names_that_a_tree_cannot_show() -> None:
    assert not any(map(is_valid_name, ("", ".", "..", "a/b", "a\\b", "a\x00", "a\nb", "\x7f")))
    assert all(map(is_valid_name, ("a", "...", " a ", "ä", "🌳")))
