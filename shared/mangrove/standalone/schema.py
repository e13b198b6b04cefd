"""The records of one machine, opened at their version: copied and upgraded, or refused."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mangrove.core.telemetry import log_event, log_warning
from mangrove.records.store import schema
from mangrove.records.store.endpoints import Endpoint
from mangrove.records.store.schema import FIRST, UPGRADES, NewerSchema, UntrustedSchema, Upgrade
from mangrove.standalone import engine, records_file
from mangrove.standalone.data_directory import DataDirectory, StartupError


def open_tables(directory: DataDirectory, endpoint: Endpoint, upgrades: Sequence[Upgrade] = UPGRADES) -> None:
    """Make the tables that are missing, and lead the records to the present version; StartupError for a newer one.

    Before an upgrade the whole file is copied to `records-version-<n>.db` beside it.
    """
    if f"{engine.TABLES}-counters" in engine.list_tables(endpoint):
        version = _read_version(directory, upgrades)
        if version < schema.get_known(upgrades):
            keep_copy(directory, version)
        engine.create_tables(endpoint)
        schema.upgrade(version, upgrades)
    else:
        engine.create_tables(endpoint)
        schema.note_new(upgrades)
    directory.write_schema(schema.get_known(upgrades))


def _read_version(directory: DataDirectory, upgrades: Sequence[Upgrade]) -> int:
    try:
        return schema.read_version(upgrades, directory.read_schema() or FIRST)
    except NewerSchema as newer:  # nothing was changed yet
        raise StartupError(f"the data directory {directory.data} is too new: {newer}") from None
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
        records_file.copy_records(directory.records, part, is_running=True)
        os.rename(part, copy)
    log_event("the records are upgraded", version=version, copy=str(copy))
