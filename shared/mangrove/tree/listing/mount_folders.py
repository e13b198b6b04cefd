"""The folders in a listing that no storage has: mounts, and what only leads to mounts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mangrove.core.chunked import iterate_chunked
from mangrove.drivers.base import Entry
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.columns import Selection
from mangrove.tree.listing.orders import Order, find_folder_place
from mangrove.tree.mounts import Mount
from mangrove.tree.operations import objects
from mangrove.tree.operations.objects import encode_rows


def make_mount_entry(name: str, mount: Mount) -> Entry:
    """A mount as a folder."""
    return Entry(name, 0, mount.storage.modified.timestamp(), True)


async def get_mount_details(access: PathAccess, mount: Mount) -> dict[str, Any]:
    """How full a mount is, where the caller may know and the storage reports it."""
    if access.caller.is_guest or access.settings.hide_storage_details:
        return {}
    space = await mounts.get_capacity(mount)
    return {"mount_details": objects.make_capacity_row(space)} if space else {}


class MountFolders:
    """Mount folders among the entries of a folder; `places`: behind how many of them each stands."""

    def __init__(self, folders: Sequence[tuple[str, Mount]], places: Sequence[int]) -> None:
        self._folders = folders
        self.places = places

    def __len__(self) -> int:
        return len(self._folders)

    async def make_rows(self, access: PathAccess, numbers: Sequence[int]) -> list[bytes]:
        """Some of their rows."""
        return await asyncio.gather(*(_make_row(access, *self._folders[number]) for number in numbers))


async def place_folders(found: dict[str, Mount], entries: Selection, order: Order | None) -> MountFolders:
    """All of `found` among the entries, which are in that order; behind them where no order is asked for."""
    if order is None:
        return MountFolders(list(found.items()), [len(entries)] * len(found))
    by_key = sorted(found.items(), key=lambda item: order.make_key(make_mount_entry(*item)), reverse=order.descending)
    places = [find_folder_place(entries, order, make_mount_entry(*item)) async for item in iterate_chunked(by_key)]
    return MountFolders(by_key, places)


async def _make_row(access: PathAccess, name: str, mount: Mount) -> bytes:
    details = await get_mount_details(access, mount) if mount.path == access.path / name else {}
    return encode_rows([objects.make_row({}, make_mount_entry(name, mount)) | details])
