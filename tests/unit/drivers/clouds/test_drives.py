"""The driver suite on a folder of this machine through opendal: what drives do that take a file in one piece."""

from __future__ import annotations

from pathlib import Path

import pytest
from opendal import AsyncOperator
from opendal.layers import CapabilityOverrideLayer

from mangrove.drivers.base import Driver, DriverContext, DriverProperties
from mangrove.drivers.clouds.kinds import Drive
from mangrove.drivers.options import Options, option
from tests.contract.drivers import suite
from tests.contract.drivers.cases import on_disk

RACES = {name for name in suite.CASES if name.startswith("of_") and "one_wins" in name}
NOT_HERE = RACES | {  # the tree holds names for clouds
    # opendal's own folder calls it no answer when a part of a path is a file, or when a name is too long with what it
    # puts behind it
    "a_folder_does_not_replace_a_file",
    "below_a_file_there_is_nothing",
    "names_of_255_bytes_are_kept_or_refused",
    # it looks at each file of a listing by itself, which takes seconds
    "ten_thousand_entries_come_in_batches_and_each_once",
    "a_listing_that_is_left_halfway_harms_nothing",
    "a_listing_that_is_cancelled_harms_nothing",
}


class FolderOptions(Options):
    root_folder_path: str = option("/", required=True)
    atomic_write_dir: str = option(required=True)


class FolderDrive(Drive):
    name = "FolderDrive"
    Options = FolderOptions
    config = DriverProperties()
    scheme = "fs"

    def build_operator(self) -> AsyncOperator:
        return super().build_operator().layer(CapabilityOverrideLayer("write_can_multi=false"))


@pytest.mark.parametrize("case", [name for name in suite.CASES if name not in NOT_HERE])
def test_contract(tmp_path: Path, case: str) -> None:
    root = tmp_path / "root"
    root.mkdir()

    async def start() -> Driver:
        options = FolderOptions(root_folder_path=str(root), atomic_write_dir=str(tmp_path / "parts"))
        driver = FolderDrive(options, DriverContext())
        await driver.start()
        return driver

    suite.run(start, case, on_disk(root))
