"""The choice of the trash of a storage, by its options and its capabilities."""

from __future__ import annotations

from mangrove.drivers.base import Driver
from mangrove.tree.trash.content import read_option
from mangrove.tree.trash.keeping import TrashDriver
from mangrove.tree.trash.moving import BucketTrashDriver, MovingTrashDriver, can_move


def keep_removed(driver: Driver) -> Driver:
    """Return a driver that keeps removed and replaced entries, or the driver itself without such options."""
    capabilities = driver.capabilities
    trash_days, versions = read_option(driver, "trash_days"), read_option(driver, "keep_versions")
    if capabilities.set_aside and (trash_days > 0 or versions > 0):
        return TrashDriver(driver)
    if trash_days <= 0 or not can_move(capabilities):
        return driver
    return BucketTrashDriver(driver) if capabilities.versions else MovingTrashDriver(driver)
