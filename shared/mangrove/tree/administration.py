"""Storages as an administrator changes them: first the record, then the driver.

A storage whose driver does not start keeps its record, with the reason as `status`; other storages are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from mangrove import configuration
from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, Problem, RecordNotFound, ResourceNotFound
from mangrove.drivers import registry
from mangrove.identity.rights import Caller
from mangrove.records import storages
from mangrove.records.storages import Storage
from mangrove.tree import audit, mounts
from mangrove.tree.audit import AuditAction
from mangrove.tree.listing import rows
from mangrove.tree.listing.listing import listings

_CHOICES = {
    "order_by": ("", "name", "size", "modified"),
    "order_direction": ("", "asc", "desc"),
    "extract_folder": ("", "front", "back"),
    "webdav_policy": ("", "302_redirect", "use_proxy_url", "native_proxy"),
}


async def list_page(cut: Callable[[list[Any]], list[Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the records of one page, by order, then id, with capacities unless hidden; and the total."""
    records = await asyncio.to_thread(storages.all)
    rows = cut([asdict(storage) for storage in records])
    if not configuration.cached().settings.hide_storage_details_in_manage_page:
        await asyncio.gather(*(_add_details(row) for row in rows))
    return rows, len(records)


async def _add_details(row: dict[str, Any]) -> None:
    mount = (await mounts.ready()).by_id.get(row["id"])
    space = await mounts.get_capacity(mount) if mount is not None else None
    if space is not None:
        row["mount_details"] = rows.make_capacity_row(space)


def get(id: int) -> Storage:
    """Return a record."""
    try:
        return storages.get(id)
    except RecordNotFound:
        raise RecordNotFound from None


def _validate(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the normalised fields of a record.

    Raise BadRequest for a value that is not a choice, or for a trash that the driver does not have; NotSupported for a
    driver that cannot work here.
    """
    registry.check_disk(fields["driver"])
    registry.refuse_trash(fields["driver"], fields["addition"])
    for name, choices in _CHOICES.items():
        if fields[name] not in choices:
            raise BadRequest(f"{name} must be one of {', '.join(filter(None, choices))}, not [{fields[name][:40]}]")
    path = str(TreePath(fields["mount_path"]))
    return fields | {"mount_path": path, "addition": _complete_addition(fields), "modified": datetime.now(UTC)}


def _complete_addition(fields: dict[str, Any]) -> str:
    """Return the addition with all keys of the driver; unchanged if it cannot be parsed."""
    addition: str = fields["addition"]
    try:
        return registry.load(fields["driver"]).Options.parse(addition).format()
    except BadRequest:
        return addition  # the reason becomes the status when the driver starts


async def create(caller: Caller, fields: dict[str, Any]) -> int:
    """Create a storage, start it unless it is disabled, and return its id. Raise Problem with `{"id": N}` if it
    does not start.
    """
    try:
        registry.load(fields["driver"])
    except ResourceNotFound:
        text = f"failed get driver new: no driver named: {fields['driver'][:100]}"
        raise Problem(text, data={"id": 0}) from None
    status = mounts.DISABLED if fields["disabled"] else ""
    record = _validate(fields) | {"status": status}
    try:
        storage = await asyncio.to_thread(lambda: storages.create(**record))
    except Problem as problem:
        raise Problem(f"failed create storage in database: {problem.message}", data={"id": 0}) from None
    await asyncio.to_thread(audit.record, caller, AuditAction.STORAGE_CREATE, storage.mount_path)
    if storage.disabled:
        return storage.id
    status = await mounts.start(storage.id)
    if status != mounts.WORKING:
        text = f"failed init storage but storage is already created: failed init storage: {status}"
        raise Problem(text, data={"id": storage.id})
    return storage.id


async def update(caller: Caller, id: int, fields: dict[str, Any]) -> int:
    """Replace all fields of a storage, restart it, and return its id."""
    old = await _get_record(id, "failed get old storage")
    if old.driver != fields["driver"]:
        raise Problem("driver cannot be changed")
    record = _validate(fields)
    if fields["disabled"]:
        record["status"] = mounts.DISABLED
    try:
        await asyncio.to_thread(lambda: storages.change(id, **record))
    except Problem as problem:
        raise Problem(f"failed update storage in database: {problem.message}") from None
    await asyncio.to_thread(audit.record, caller, AuditAction.STORAGE_UPDATE, record["mount_path"])
    await _restart(id, fields["disabled"], "failed init storage")
    return id


async def _get_record(id: int, complaint: str) -> Storage:
    try:
        return await asyncio.to_thread(storages.get, id)
    except RecordNotFound:
        raise RecordNotFound(f"{complaint}: record not found") from None


async def _restart(id: int, disabled: bool, complaint: str) -> None:
    listings().forget_below(id)
    if disabled:
        await mounts.ready()
        return
    status = await mounts.start(id)
    if status != mounts.WORKING:
        raise Problem(f"{complaint}: {status}")


async def delete(caller: Caller, id: int) -> None:
    """Unmount a storage and delete its record; the files stay in the storage."""
    storage = await _get_record(id, "failed get storage")
    await asyncio.to_thread(storages.delete, id)
    await asyncio.to_thread(audit.record, caller, AuditAction.STORAGE_DELETE, storage.mount_path)
    await _restart(id, True, "")


async def enable(caller: Caller, id: int) -> None:
    """Mount a disabled storage again."""
    storage = await _get_record(id, "failed get storage")
    if not storage.disabled:
        raise Problem("this storage have enabled")
    await asyncio.to_thread(lambda: storages.change(id, disabled=False))
    await asyncio.to_thread(audit.record, caller, AuditAction.STORAGE_ENABLE, storage.mount_path)
    await _restart(id, False, "failed load storage: failed init storage")


async def disable(caller: Caller, id: int) -> None:
    """Unmount a storage and keep its record."""
    storage = await _get_record(id, "failed get storage")
    if storage.disabled:
        raise Problem("this storage have disabled")
    await asyncio.to_thread(lambda: storages.change(id, disabled=True, status=mounts.DISABLED))
    await asyncio.to_thread(audit.record, caller, AuditAction.STORAGE_DISABLE, storage.mount_path)
    await _restart(id, True, "")


async def load_all() -> None:
    """Restart every enabled storage, concurrently."""
    listings().clear()
    await mounts.restart()
