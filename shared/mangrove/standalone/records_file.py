"""The file in which the records engine keeps the records: SQLite, looked at without the engine.

While the engine runs, this process only reads it: SQLite before 3.51.3 can damage a file in WAL mode when a second
process writes it or moves its log into it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from mangrove.core.telemetry import log_warning
from mangrove.standalone.data_directory import StartupError, check_space, sync_folder

FULL_VACUUM = 1  # what `PRAGMA auto_vacuum` says for: pages that become free leave the file with the change itself


def prepare(path: Path) -> None:
    """Make the file, or change it, so that it shrinks when records are removed. No engine runs on it; StartupError."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            if database.execute("PRAGMA auto_vacuum").fetchone() != (FULL_VACUUM,):
                database.execute(f"PRAGMA auto_vacuum = {FULL_VACUUM}")
                database.execute("VACUUM")
    except sqlite3.OperationalError as error:  # not needed to run: the next start tries it again
        check_space(path.parent)
        log_warning("the file of the records does not shrink", reason=str(error))
    except sqlite3.DatabaseError as error:
        raise StartupError(f"{path} cannot be read: {error}") from None


def copy_records(source: Path, target: Path, *, is_running: bool) -> None:
    """Copy all records as of one moment into a new file for the owner alone, which is on the disk afterwards.

    `is_running`: an engine works on the source; it goes on meanwhile. StartupError for what is not sound.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    mode = "ro" if is_running else "rw"
    address = f"{source.absolute().as_uri()}?mode={mode}"
    try:
        with closing(sqlite3.connect(address, uri=True)) as records, closing(sqlite3.connect(target)) as copy:
            records.backup(copy)
            if copy.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise StartupError(f"the records in {source} are damaged")
    except sqlite3.Error as error:
        raise StartupError(f"the records in {source} cannot be copied: {error}") from None
    with target.open("rb") as file:
        os.fsync(file.fileno())
    sync_folder(target.parent)
