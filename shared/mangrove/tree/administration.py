"""Storages as an administrator changes them: record first, then the driver (behaviour 8.3).

A storage whose driver does not start keeps its record, with the reason as `status`; the others do not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from mangrove.drivers import registry
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Missing, Problem
from mangrove.records import storages
from mangrove.records.base import RecordMissing
from mangrove.records.storages import Storage
from mangrove.site import snapshot
from mangrove.tree import mounts, objects
from mangrove.tree.listing import cache

_CHOICES = {
    "order_by": ("", "name", "size", "modified"),
    "order_direction": ("", "asc", "desc"),
    "extract_folder": ("", "front", "back"),
    "webdav_policy": ("", "302_redirect", "use_proxy_url", "native_proxy"),
}


async def listed(cut: Callable[[list[Any]], list[Any]]) -> tuple[list[dict[str, Any]], int]:
    """The records of one page, by order, then id, and how many there are; with capacities where they are wanted."""
    found = await asyncio.to_thread(storages.all)
    rows = cut([asdict(storage) for storage in found])
    if not snapshot.current().settings.on("hide_storage_details_in_manage_page"):
        await asyncio.gather(*(_add_details(row) for row in rows))
    return rows, len(found)


async def _add_details(row: dict[str, Any]) -> None:
    mount = next((one for one in (await mounts.ready()).mounts if one.storage.id == row["id"]), None)
    space = await mounts.details(mount) if mount is not None else None
    if space is not None:
        row["mount_details"] = objects.capacity(space)


def get(id: int) -> Storage:
    """One record."""
    try:
        return storages.get(id)
    except RecordMissing:
        raise Problem("record not found") from None


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    for name, choices in _CHOICES.items():
        if fields[name] not in choices:
            raise BadRequest(f"{name} must be one of {', '.join(filter(None, choices))}, not [{fields[name][:40]}]")
    path = str(TreePath(fields["mount_path"]))
    return fields | {"mount_path": path, "addition": _whole(fields), "modified": datetime.now(UTC)}


def _whole(fields: dict[str, Any]) -> str:
    """The addition with all keys of the driver; as it was given when it cannot be read."""
    addition: str = fields["addition"]
    try:
        return registry.load(fields["driver"]).Options.parse(addition).model_dump_json()
    except BadRequest:
        return addition  # the driver's start says what is wrong with it


async def create(fields: dict[str, Any]) -> int:
    """A new storage, started unless it is disabled; its id. Problem with `{"id": N}` when it does not start."""
    try:
        registry.load(fields["driver"])
    except Missing:
        text = f"failed get driver new: no driver named: {fields['driver'][:100]}"
        raise Problem(text, data={"id": 0}) from None
    status = mounts.DISABLED if fields["disabled"] else ""
    checked = _checked(fields) | {"status": status}
    try:
        storage = await asyncio.to_thread(lambda: storages.create(**checked))
    except Problem as problem:
        raise Problem(f"failed create storage in database: {problem.message}", data={"id": 0}) from None
    if storage.disabled:
        return storage.id
    status = await mounts.start(storage.id)
    if status != mounts.WORKING:
        text = f"failed init storage but storage is already created: failed init storage: {status}"
        raise Problem(text, data={"id": storage.id})
    return storage.id


async def update(id: int, fields: dict[str, Any]) -> int:
    """Replace all of a storage and start it anew; its id."""
    old = await _found(id, "failed get old storage")
    if old.driver != fields["driver"]:
        raise Problem("driver cannot be changed")
    checked = _checked(fields)
    if fields["disabled"]:
        checked["status"] = mounts.DISABLED
    try:
        await asyncio.to_thread(lambda: storages.change(id, **checked))
    except Problem as problem:
        raise Problem(f"failed update storage in database: {problem.message}") from None
    await _restarted(id, fields["disabled"], "failed init storage")
    return id


async def _found(id: int, complaint: str) -> Storage:
    try:
        return await asyncio.to_thread(storages.get, id)
    except RecordMissing:
        raise Problem(f"{complaint}: record not found") from None


async def _restarted(id: int, disabled: bool, complaint: str) -> None:
    cache.forget_below(id)
    if disabled:
        await mounts.ready()
        return
    status = await mounts.start(id)
    if status != mounts.WORKING:
        raise Problem(f"{complaint}: {status}")


async def delete(id: int) -> None:
    """Unmount a storage and forget it; what it holds stays where it is."""
    await _found(id, "failed get storage")
    await asyncio.to_thread(storages.delete, id)
    await _restarted(id, True, "")


async def enable(id: int) -> None:
    """Mount a disabled storage again."""
    if not (await _found(id, "failed get storage")).disabled:
        raise Problem("this storage have enabled")
    await asyncio.to_thread(lambda: storages.change(id, disabled=False))
    await _restarted(id, False, "failed load storage: failed init storage")


async def disable(id: int) -> None:
    """Unmount a storage and keep its record."""
    if (await _found(id, "failed get storage")).disabled:
        raise Problem("this storage have disabled")
    await asyncio.to_thread(lambda: storages.change(id, disabled=True, status=mounts.DISABLED))
    await _restarted(id, True, "")


async def load_all() -> None:
    """Start every enabled storage anew, at once."""
    await mounts.close()
    cache.clear()
    await mounts.load()
