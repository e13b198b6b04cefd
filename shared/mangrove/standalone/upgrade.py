"""The records of one machine, opened at their version: copied and upgraded, or refused."""

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

OLD_PIN, PIN = "lent", "pinned"  # names of the file that marks what another program uses


def open_tables(directory: DataDirectory, endpoint: EngineEndpoint, steps: Sequence[Step] | None = None) -> None:
    """Make the tables that are missing, and lead the records to the present version; StartupError for records that are
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
        shutil.rmtree(directory.data / "index", ignore_errors=True)  # what was marked as changed is not known any more
        engine.delete_old_indexes(endpoint)
    directory.write_schema(VERSION)


def _read_version(directory: DataDirectory) -> int | None:
    try:
        return upgrade.read_version(directory.read_schema() or 0)
    except NewerSchema as newer:  # nothing was changed yet
        raise StartupError(f"the data directory {directory.data} is too new: {newer}") from None
    except OlderSchema as older:
        raise StartupError(f"the data directory {directory.data} is too old: {older}") from None
    except UntrustedSchema as reason:
        raise StartupError(
            f"the records in {directory.data} are not to be trusted: {reason}; restore a backup, or remove "
            f"{directory.schema} if you put older records there yourself"
        ) from None


def keep_copy(directory: DataDirectory, version: int) -> None:
    """Copy the records as they are before an upgrade, unless an upgrade that was cut off did so."""
    if not directory.records.exists():
        log_warning("records that are kept elsewhere are upgraded without a copy", version=version)
        return
    copy = directory.data / f"records-version-{version}.db"
    if not copy.exists():
        part = directory.data / f".{copy.name}"
        part.unlink(missing_ok=True)
        copy_records(directory.records, part, is_running=True)
        os.rename(part, copy)
    log_event("the records are upgraded", version=version, copy=str(copy))


def _rename_pins(directory: DataDirectory) -> None:
    for pin in (directory.data / "staging").glob(f"*/{OLD_PIN}"):
        os.replace(pin, pin.with_name(PIN))
