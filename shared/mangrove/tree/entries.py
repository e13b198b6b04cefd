"""Entries of the tree one by one, mounts among them, for doors that do not speak the interface's lists."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mangrove.drivers.base import Entry
from mangrove.problems import NotAFolder
from mangrove.slices import SLICE, in_slices
from mangrove.tree import browse
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.mount_folders import make_mount_entry


async def stat(access: PathAccess) -> Entry:
    """What is at the path: an entry of a storage, a mount, or a folder that only leads to mounts.

    NotFound, NotReadable, or the driver's StorageProblem.
    """
    access.require_read()
    virtual = browse.find_virtual_entry(access)
    return virtual[0] if virtual is not None else await lookup(await locate(access), to_show=True)


async def iterate(access: PathAccess) -> AsyncIterator[Entry]:
    """What the caller may see in a folder: its storage's entries, then the mounts that it has no entry for."""
    access.require_read()
    virtual = access.find_virtual_folders()
    found = await browse.read_folder(access, False, bool(virtual))
    if found is not None:
        folder = found[0]
        passes = access.make_visibility_filter().passes
        virtual = browse.exclude_names(virtual, folder)
        for start in range(0, len(folder.entries), SLICE):
            async for entry in in_slices(folder.entries[start : start + SLICE]):
                if passes(entry):
                    yield entry
    for name, mount in virtual.items():
        yield make_mount_entry(name, mount)


async def require_folder(access: PathAccess) -> None:
    """NotFound or NotAFolder unless there is a folder at the path."""
    if not (await stat(access)).is_dir:
        raise NotAFolder
