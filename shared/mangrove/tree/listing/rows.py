"""The rows of files and folders in answers, with signatures, thumbnails and the folders of mounts.

Storages that make no thumbnails get them from the service, see `tree.operations.thumbnails`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Capacity, Driver, Entry
from mangrove.drivers.picture_types import PICTURES
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.folder import Encode
from mangrove.tree.mounts import Mount
from mangrove.tree.operations import links
from mangrove.tree.operations.links import LinkSigner

ZERO_TIME = "0001-01-01T00:00:00Z"
FOLDER_CODE = 1
_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
REMOTE_PICTURES = PICTURES - {"svg"}


def find_picture_limit(settings: Settings, driver: Driver | None) -> int:
    """Return the size in bytes up to which pictures of a storage get thumbnails from the service; 0 for none."""
    if driver is None or driver.capabilities.make_thumbnail or platform().thumbnails_folder is None:
        return 0
    return settings.remote_thumbnail_max_mb << 20


def find_limit_at(access: PathAccess) -> int:
    """Return this size for the storage of a path; 0 for a path that only leads to storages."""
    try:
        return find_picture_limit(access.tree.settings, access.find_mount()[0].driver)
    except StorageProblem:
        return 0


def gets_thumbnail(entry: Entry, limit: int) -> bool:
    """True if the service makes a thumbnail of this entry."""
    extension = entry.name.rpartition(".")[2].lower()
    return not entry.is_dir and extension in REMOTE_PICTURES and entry.size is not None and entry.size <= limit


def mark_picture(access: PathAccess, entry: Entry) -> Entry:
    """Return an entry which says that it has a thumbnail if the service makes one."""
    limit = find_limit_at(access)
    return entry._replace(thumb=True) if limit and gets_thumbnail(entry, limit) else entry


def get_type_code(codes: Mapping[str, int], name: str, is_dir: bool) -> int:
    """Return the type code of an entry: 1 for a folder, otherwise by extension, 0 if unknown."""
    return FOLDER_CODE if is_dir else codes.get(name.rpartition(".")[2].lower(), 0)


def format_time(seconds: float) -> datetime | str:
    """Return a time for JSON: the zero time if it is unknown, before the year 1 or after 9999."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else ZERO_TIME
    except (ValueError, OverflowError, OSError):
        return ZERO_TIME


def make_row(codes: Mapping[str, int], entry: Entry, sign: str = "", thumb: str = "") -> dict[str, Any]:
    """Return the row of an entry. An unknown size is 0."""
    hashes = dict(entry.hashes) if entry.hashes else None
    modified = format_time(entry.modified)
    return {
        "name": entry.name,
        "size": entry.size or 0,
        "is_dir": entry.is_dir,
        "modified": modified,
        "created": format_time(entry.created) if entry.created else modified,
        "sign": sign,
        "thumb": thumb,
        "type": get_type_code(codes, entry.name, entry.is_dir),
        "hashinfo": orjson.dumps(hashes).decode() if hashes else "null",
        "hash_info": hashes,
    }


def make_capacity_row(space: Capacity) -> dict[str, int]:
    """Return the `mount_details` of a storage."""
    return {"total_space": space.total, "used_space": space.used, "free_space": space.free}


def encode_rows(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Encode rows as JSON, separated by commas."""
    return orjson.dumps(list(rows), option=_OPTIONS)[1:-1]


def make_signer(access: PathAccess) -> LinkSigner:
    """Return the signer of links for this caller."""
    return links.make_signer(access.tree.settings, access.caller.user.id)


def make_folder_signer(access: PathAccess) -> LinkSigner | None:
    """Return the signer of links in this folder; None if they carry no signature."""
    return make_signer(access) if access.signs_folder() else None


def make_encoder(access: PathAccess, signer: LinkSigner | None, base: str | None) -> Encode:
    """Return the function that encodes entries of the folder.

    It signs them if there is a signer, and adds thumbnails if `base`, the service's address, is not None.
    """
    codes = access.tree.settings.type_codes
    prefix = "" if access.path == "/" else str(access.path)
    limit = 0 if base is None else find_limit_at(access)

    def make_signed_row(entry: Entry) -> dict[str, Any]:
        path = f"{prefix}/{entry.name}"
        sign = signer.sign(path) if signer is not None and not entry.is_dir else ""
        shown = entry._replace(thumb=True) if limit and gets_thumbnail(entry, limit) else entry
        return make_row(codes, entry, sign, make_thumb_url(access, path, shown, sign, base))

    return lambda entries: encode_rows(map(make_signed_row, entries))


def make_thumb_url(access: PathAccess, path: str, entry: Entry, sign: str, base: str | None) -> str:
    """Return the address of the thumbnail of an entry; "" if it has none, or visitors of a share get none."""
    if base is None or not entry.thumb or entry.is_dir:
        return ""
    if access.share is not None:
        is_shown = access.tree.settings.share_preview
        return access.share.make_url(base, "/sd", TreePath(path), "type=thumb") if is_shown else ""
    return links.make_file_url(base, "/d", path, f"type=thumb&sign={sign}")


def make_mount_entry(name: str, mount: Mount) -> Entry:
    """Return a mount as a folder."""
    return Entry(name, 0, mount.storage.modified.timestamp(), True)


async def get_mount_details(access: PathAccess, mount: Mount) -> dict[str, Any]:
    """Return the capacity of a mount, if the caller may know it and the storage reports it."""
    if access.share is not None or access.caller.is_guest or access.tree.settings.hide_storage_details:
        return {}
    space = await mounts.get_capacity(mount)
    return {"mount_details": make_capacity_row(space)} if space else {}


async def make_mount_row(access: PathAccess, name: str, mount: Mount) -> bytes:
    """Encode the row of a mount, or of a folder that leads to it, in the folder of `access`."""
    details = await get_mount_details(access, mount) if mount.path == access.path / name else {}
    return encode_rows([make_row({}, make_mount_entry(name, mount)) | details])
