"""Pictures on storages that make no thumbnails: the service makes them, see `tree.operations.thumbnails`."""

from __future__ import annotations

from mangrove.configuration.values import Settings
from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.picture_types import PICTURES
from mangrove.tree.access import PathAccess

REMOTE_PICTURES = PICTURES - {"svg"}


def find_picture_limit(settings: Settings, driver: Driver | None) -> int:
    """Return the size in bytes up to which pictures of a storage get thumbnails from the service; 0 for none."""
    if driver is None or driver.capabilities.make_thumbnail or platform().thumbnails_folder is None:
        return 0
    return settings.remote_thumbnail_max_mb << 20


def find_limit_at(access: PathAccess) -> int:
    """Return this size for the storage of a path; 0 for a path that only leads to storages."""
    try:
        return find_picture_limit(access.settings, access.find_mount()[0].driver)
    except StorageProblem:
        return 0


def is_shown(entry: Entry, limit: int) -> bool:
    """True if the service makes a thumbnail of this entry."""
    extension = entry.name.rpartition(".")[2].lower()
    return not entry.is_dir and extension in REMOTE_PICTURES and entry.size is not None and entry.size <= limit


def mark_picture(access: PathAccess, entry: Entry) -> Entry:
    """Return an entry which says that it has a thumbnail if the service makes one."""
    limit = find_limit_at(access)
    return entry._replace(thumb=True) if limit and is_shown(entry, limit) else entry
