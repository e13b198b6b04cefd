"""Storages as an administrator changes them: first the record, then the driver.

A storage whose driver does not start keeps its record, with the reason as `status`; other storages are not affected.
Before a storage is stored, a driver that runs for one call may try it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mangrove import configuration
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, Problem, RecordNotFound, ResourceNotFound, StorageUnavailable
from mangrove.core.telemetry import log_exception
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext
from mangrove.identity.rights import Caller
from mangrove.records import storages
from mangrove.records.storages import Storage
from mangrove.tree import audit, mounts
from mangrove.tree.access import TreeState
from mangrove.tree.audit import AuditAction
from mangrove.tree.listing import rows
from mangrove.tree.listing.listing import listings
from mangrove.tree.operations.kept_rules import require_mount_rules

if TYPE_CHECKING:
    from mangrove.drivers.options import Options


_CHOICES = {
    "order_by": ("", "name", "size", "modified"),
    "order_direction": ("", "asc", "desc"),
    "extract_folder": ("", "front", "back"),
    "webdav_policy": ("", "302_redirect", "use_proxy_url", "native_proxy"),
}
TRIAL_SECONDS = 20.0  # of the whole trial
MAX_TRIAL_FOLDERS = 1000  # in the answer


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
    """Replace all fields of a storage, restart it, and return its id.

    Raise RuleLeftBehind if a new mount path would open what a rule at the old one protects.
    """
    old = await _get_record(id, "failed get old storage")
    if old.driver != fields["driver"]:
        raise Problem("driver cannot be changed")
    record = _validate(fields)
    await _require_mount_rules(old.mount_path, record["mount_path"])
    if fields["disabled"]:
        record["status"] = mounts.DISABLED
    try:
        await asyncio.to_thread(lambda: storages.change(id, **record))
    except Problem as problem:
        raise Problem(f"failed update storage in database: {problem.message}") from None
    await asyncio.to_thread(audit.record, caller, AuditAction.STORAGE_UPDATE, record["mount_path"])
    await _restart(id, fields["disabled"], "failed init storage")
    return id


async def _require_mount_rules(mount_path: str, new_mount_path: str) -> None:
    path, new_path = mounts.find_path(mount_path), mounts.find_path(new_mount_path)
    if path != new_path:
        require_mount_rules(await TreeState.read(), path, new_path)


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


@dataclass(slots=True)
class Trial:
    """The result of a trial."""

    folders: list[str] = field(default_factory=list)
    """Names of folders in the folder, at most MAX_TRIAL_FOLDERS, in the order of the storage."""
    addition: str = ""
    """The options, with the tokens that the driver replaced."""


async def try_storage(driver: str, addition: str, path: TreePath, caller: str) -> Trial:
    """Start a driver with these options, list the folders of a folder, and stop it. Nothing is stored.

    Raise a Problem with the reason if it does not start, or the folder cannot be listed.
    """
    registry.check_disk(driver)
    trial = Trial(addition=addition)
    async with limits().large_requests.hold(caller):
        try:
            async with asyncio.timeout(TRIAL_SECONDS), _run_driver(driver, trial) as running:
                trial.folders = await _list_folders(running, path)
        except TimeoutError:
            raise StorageUnavailable(f"the storage did not answer within {TRIAL_SECONDS:.0f} s") from None
    return trial


@asynccontextmanager
async def _run_driver(name: str, trial: Trial) -> AsyncIterator[Driver]:
    async def save_options(options: Options) -> None:
        trial.addition = options.format()

    kind = registry.load(name)
    context = DriverContext(resolver=mounts.MountResolver(), save_options=save_options)
    driver = kind(kind.Options.parse(trial.addition), context)
    try:
        await _start_driver(driver)
        yield driver
    finally:
        await driver.stop()


async def _start_driver(driver: Driver) -> None:
    try:
        await driver.start()
    except (Problem, TimeoutError):
        raise
    except Exception:  # the text of an unexpected error of a library does not help an administrator: it goes to the log
        log_exception("driver failed to start", driver=driver.name)
        raise StorageUnavailable("the driver failed to start, see the log") from None


async def _list_folders(driver: Driver, path: TreePath) -> list[str]:
    names: list[str] = []
    async for batch in driver.list(path):
        names += [entry.name for entry in batch if entry.is_dir]
        if len(names) >= MAX_TRIAL_FOLDERS:
            break
    return names[:MAX_TRIAL_FOLDERS]
