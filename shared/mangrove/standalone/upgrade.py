"""The records of a standalone service, opened at the present version: copied and upgraded, or refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from mangrove.core.telemetry import log_event, log_warning
from mangrove.records.store import upgrade
from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.records.store.upgrade import VERSION, NewerSchema, OlderSchema, Step, UntrustedSchema
from mangrove.standalone import engine
from mangrove.standalone.data_directory import DataDirectory, StartupError, copy_records
from mangrove.tasks.upgrade import upgrade_task

OLD_PIN, PIN = "lent", "pinned"  # suffixes of the file that marks records as used by another program


def open_tables(directory: DataDirectory, endpoint: EngineEndpoint, steps: Sequence[Step] | None = None) -> None:
    """Create missing tables and upgrade the records to the present version. Raise StartupError for records that are
    newer or too old.

    Before an upgrade the whole file is copied to `records-version-<n>.db` beside it.
    """
    version = None
    if f"{engine.TABLES}-counters" in engine.list_tables(endpoint):
        version = _read_version(directory)
    if version is not None and version < VERSION:
        keep_copy(directory, version)
    engine.create_tables(endpoint)
    upgrade.upgrade(version, upgrade.make_steps(upgrade_task) if steps is None else steps)
    if version is not None and version < VERSION:
        _rename_pins(directory)
        shutil.rmtree(directory.data / "index", ignore_errors=True)  # the notes of changed folders are lost
        engine.delete_old_indexes(endpoint)
    directory.write_schema(VERSION)


def _read_version(directory: DataDirectory) -> int | None:
    try:
        return upgrade.read_version(directory.read_schema() or 0)
    except NewerSchema as newer:  # nothing has been changed yet
        raise StartupError(f"the data directory {directory.data} is too new: {newer}") from None
    except OlderSchema as older:
        raise StartupError(f"the data directory {directory.data} is too old: {older}") from None
    except UntrustedSchema as reason:
        raise StartupError(
            f"the records in {directory.data} cannot be trusted: {reason}; restore a backup, or remove "
            f"{directory.schema} if you put older records there yourself"
        ) from None


def keep_copy(directory: DataDirectory, version: int) -> None:
    """Copy the records before an upgrade, unless an interrupted upgrade already did."""
    if not directory.records.exists():
        log_warning("records of an external engine are upgraded without a copy", version=version)
        return
    copy = directory.data / f"records-version-{version}.db"
    if not copy.exists():
        part = directory.data / f".{copy.name}"
        part.unlink(missing_ok=True)
        copy_records(directory.records, part, is_running=True)
        os.rename(part, copy)
    log_event("upgrading records", version=version, copy=str(copy))


def _rename_pins(directory: DataDirectory) -> None:
    for pin in (directory.data / "staging").glob(f"*/{OLD_PIN}"):
        os.replace(pin, pin.with_name(PIN))
