"""The data directory of a service on one machine: its master key, and the one process that holds it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mangrove.core.telemetry import log_event, log_warning
from mangrove.standalone import permissions

ENDED_HOLDER_SECONDS = 30.0  # that a lock may be held after its process has ended
LOCK_INTERVAL_SECONDS = 0.05  # between two tries to take it
ROOM_BYTES = 1 << 20  # what a start needs: the tables, and the engine's log of writes


class StartupError(Exception):
    """Why the service cannot start, in one line."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The process that holds a data directory. `address` and `engine` are URLs, "" until the service listens;
    `engine_socket`: the Unix socket that gives connections to the engine, "" for one that needs none;
    `keeps_records`: the engine is its own, on the directory's file."""

    pid: int
    address: str = ""
    engine: str = ""
    engine_socket: str = ""
    keeps_records: bool = False


def explain(data: Path, error: OSError) -> StartupError:
    """Why a data directory cannot be written to."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StartupError(f"no space left for the data directory {data}")
    return StartupError(f"cannot write to the data directory {data}: {error.strerror}")


def check_space(data: Path) -> None:
    """StartupError unless there is room for a start: the engine would only end, and not say why."""
    try:
        with tempfile.TemporaryFile(dir=data, buffering=0) as probe:
            left = ROOM_BYTES
            while left:
                left -= probe.write(bytes(left))
    except OSError as error:
        raise explain(data, error) from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _has_ended(pid: int) -> bool:
    """True if there is no such process, or only what its parent has not noticed yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists()
    return state in ("Z", "X")


class DataDirectory:
    """The data directory, held by one process at a time."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.key = data / "key"
        self.records = data / "records.db"
        self.schema = data / "schema"  # the version that the records have, where no other account can lower it
        self.restored = data / ".restored"  # a whole backup that takes the place of what is there
        self._lock = data / "mangrove.lock"
        self._handle = -1

    def lock(self) -> None:
        """Make the directory, lock it until this process ends, and close it to other accounts.

        StartupError names the process that has it, or what is wrong with the directory.
        """
        try:
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_owner()
            self._handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._wait_for_lock()
            permissions.close_to_others(str(self.data))
            self.write_holder(ProcessInfo(os.getpid()))
        except BlockingIOError:
            holder = self.read_holder()
            pid = "?" if holder is None else holder.pid
            address = f" ({holder.address})" if holder is not None and holder.address else ""
            raise StartupError(f"the data directory {self.data} is in use by process {pid}{address}") from None
        except OSError as error:
            raise explain(self.data, error) from None

    def _wait_for_lock(self) -> None:
        """Take the lock; BlockingIOError. One whose process has ended is about to be free: the last process of that
        service may still wait for a disk."""
        end = time.monotonic() + ENDED_HOLDER_SECONDS
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                holder = self.read_holder()
                if holder is None or not _has_ended(holder.pid) or time.monotonic() > end:
                    raise
            time.sleep(LOCK_INTERVAL_SECONDS)

    def _check_owner(self) -> None:
        """StartupError for a directory of another account, and for one that others have their files in."""
        status = self.data.stat()
        if status.st_uid != os.geteuid():
            if os.geteuid() != 0:
                raise StartupError(f"the data directory {self.data} belongs to another account (uid {status.st_uid})")
            log_warning("the data directory belongs to an account that can read the records", uid=status.st_uid)
        is_new = not (self._lock.exists() or self.key.exists())
        if is_new and status.st_mode & permissions.GROUP_AND_WORLD_BITS and set(os.listdir(self.data)) - {"lost+found"}:
            raise StartupError(
                f"{self.data} has files of others in it, and would be closed to them as a data directory: "
                "name an empty one"
            )

    def prepare(self) -> None:
        """Make a locked directory fit for the records: a restored backup in its place, room, and the key."""
        check_space(self.data)
        try:
            self.take_restored()
            self._create_key()
        except OSError as error:
            raise explain(self.data, error) from None

    def take_restored(self) -> None:
        """Put what was restored into its place; what a cut-off left of that is done by the next call."""
        if not self.restored.exists():
            return
        entries = list(self.restored.iterdir())
        if any(entry.name == self.records.name for entry in entries):
            self.schema.unlink(missing_ok=True)  # older records come without it
            for suffix in ("-wal", "-shm", "-journal"):  # those of the old records would be taken for the new ones'
                self.records.with_name(f"{self.records.name}{suffix}").unlink(missing_ok=True)
        for entry in entries:
            target = self.data / entry.name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(entry, target)
        shutil.rmtree(self.data / "index", ignore_errors=True)  # of other records; it is built anew
        sync_folder(self.data)
        self.restored.rmdir()

    def read_holder(self) -> ProcessInfo | None:
        """Return the notes of the process that holds, or last held, the directory; None if nothing is readable."""
        try:
            return ProcessInfo(**json.loads(self._lock.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write_holder(self, info: ProcessInfo) -> None:
        """Let other processes know this one, which has the lock."""
        text = json.dumps({key: value for key, value in asdict(info).items() if value}).encode()
        os.pwrite(self._handle, text, 0)
        os.ftruncate(self._handle, len(text))

    def read_schema(self) -> int | None:
        """The version that the records were led to; None when none was noted. StartupError."""
        try:
            return int(self.schema.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise StartupError(f"{self.schema} cannot be read") from None

    def write_schema(self, version: int) -> None:
        """Note the version that the records are of."""
        if self.read_schema() == version:
            return
        part = self.data / ".schema"
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
                file.write(f"{version}\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.schema)
            sync_folder(self.data)
        except OSError as error:
            raise explain(self.data, error) from None

    def _create_key(self) -> None:
        """The master key, made once, whole or not at all; never another one beside records that need theirs."""
        if self.key.exists():
            return
        if self.records.exists():
            raise StartupError(
                f"the key {self.key} is missing beside {self.records.name}: put it back from a backup, "
                "the secrets in the records cannot be read with another one"
            )
        part = self.data / f".key-{secrets.token_hex(8)}"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, secrets.token_bytes(32))
            os.fsync(handle)
            os.rename(part, self.key)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        sync_folder(self.data)


RESERVE_NAME = ".reserve"
RESERVE_BYTES = 8 << 20
MIN_FREE_BYTES = ROOM_BYTES  # with less, the disk counts as full
OWN_FREE_BYTES = RESERVE_BYTES // 2  # of a reserve that was given up, for the records alone
REFILL_FREE_BYTES = 2 * RESERVE_BYTES  # with which the reserve is made again


class DiskReserve:
    """The reserve on the disk of the data directory. Its methods block for microseconds, but for `update`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._path = data / RESERVE_NAME
        self._device: int | None = None

    def update(self) -> None:
        """Give the reserve up when the disk is full, and make it again when there is room. One process does this."""
        with suppress(OSError):
            free, size = self._find_free(), self._find_size()
            if size and free < MIN_FREE_BYTES:
                os.truncate(self._path, 0)
                log_warning("the data disk is full: nothing but records is written to it", bytes=free)
            elif not size and free >= REFILL_FREE_BYTES:
                self._fill()
                if size == 0:
                    log_event("the data disk has room again", bytes=free)

    def is_on_disk(self, device: int) -> bool:
        """True if files of this device lie on the data disk."""
        if self._device is None:
            try:
                self._device = os.stat(self._data).st_dev
            except OSError:  # nothing was stored there yet
                return False
        return device == self._device

    def is_full(self) -> bool:
        """True if files of users may not be written to the data disk."""
        return self._find_size() == 0 or self._find_free() < MIN_FREE_BYTES

    def is_full_for_service(self) -> bool:
        """True if files that the service keeps for itself may not be written to the data disk either."""
        return self._find_free() < (OWN_FREE_BYTES if self._find_size() == 0 else MIN_FREE_BYTES)

    def _find_free(self) -> int:
        disk = os.statvfs(self._data)
        return disk.f_bavail * disk.f_frsize

    def _find_size(self) -> int | None:
        """Return the length of the file; None where there is none."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return None

    def _fill(self) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(handle, 0, RESERVE_BYTES)
        except OSError:
            os.ftruncate(handle, 0)
            raise
        finally:
            os.close(handle)


FULL_VACUUM = 1  # what `PRAGMA auto_vacuum` says for: pages that become free leave the file with the change itself


def prepare_records(path: Path) -> None:
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
