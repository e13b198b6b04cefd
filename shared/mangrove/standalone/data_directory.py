"""The data directory of a standalone service: its master key, and the lock of the process that uses it."""

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

ENDED_HOLDER_SECONDS = 30.0  # for which a lock may remain after the end of its process
LOCK_INTERVAL_SECONDS = 0.05  # between two attempts to take it
ROOM_BYTES = 1 << 20  # needed for a start: the tables, and the engine's write-ahead log


class StartupError(Exception):
    """The reason why the service cannot start, in one line."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The process that uses a data directory.

    `address` and `engine` are URLs, "" until the service listens; `engine_socket`: the Unix socket that gives
    connections to the engine, "" if it needs none; `keeps_records`: the engine is its own, on the directory's file.
    """

    pid: int
    address: str = ""
    engine: str = ""
    engine_socket: str = ""
    keeps_records: bool = False


def explain(data: Path, error: OSError) -> StartupError:
    """Return the reason why a data directory cannot be written to."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StartupError(f"no space left for the data directory {data}")
    return StartupError(f"cannot write to the data directory {data}: {error.strerror}")


def check_space(data: Path) -> None:
    """Raise StartupError if the disk is too full for a start. The engine would end without a reason."""
    try:
        with tempfile.TemporaryFile(dir=data, buffering=0) as probe:
            left = ROOM_BYTES
            while left:
                left -= probe.write(bytes(left))
    except OSError as error:
        raise explain(data, error) from None


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that they survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _has_ended(pid: int) -> bool:
    """True if the process does not exist, or is a zombie that its parent has not reaped yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists()
    return state in ("Z", "X")


class DataDirectory:
    """A data directory, used by one process at a time."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.key = data / "key"
        self.records = data / "records.db"
        self.schema = data / "schema"  # the version of the records, in a place where no other account can lower it
        self.restored = data / ".restored"  # a complete backup that replaces the content
        self._lock = data / "mangrove.lock"
        self._handle = -1

    def lock(self) -> None:
        """Create the directory, lock it until this process ends, and close it to other accounts.

        Raise StartupError with the process that uses it, or with the defect of the directory.
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

    def is_locked(self) -> bool:
        """True if a process uses the directory."""
        try:
            handle = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise explain(self.data, error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def _wait_for_lock(self) -> None:
        """Take the lock. Raise BlockingIOError if another process has it.

        If that process has ended, wait for the lock: a child of it may still wait for a disk.
        """
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
        """Raise StartupError if the directory belongs to another account or has files of other accounts."""
        status = self.data.stat()
        if status.st_uid != os.geteuid():
            if os.geteuid() != 0:
                raise StartupError(f"the data directory {self.data} belongs to another account (uid {status.st_uid})")
            log_warning("the data directory belongs to an account that can read the records", uid=status.st_uid)
        is_new = not (self._lock.exists() or self.key.exists())
        if is_new and status.st_mode & permissions.GROUP_AND_WORLD_BITS and set(os.listdir(self.data)) - {"lost+found"}:
            raise StartupError(
                f"{self.data} contains files of other accounts, which would lose access to them: use an empty directory"
            )

    def prepare(self) -> None:
        """Prepare a locked directory for the records: apply a restored backup, check the room, make the key."""
        check_space(self.data)
        try:
            self.take_restored()
            self._create_key()
        except OSError as error:
            raise explain(self.data, error) from None

    def take_restored(self) -> None:
        """Move a restored backup into its place. The next call finishes a move that was interrupted."""
        if not self.restored.exists():
            return
        entries = list(self.restored.iterdir())
        if any(entry.name == self.records.name for entry in entries):
            self.schema.unlink(missing_ok=True)  # the backup of older records has none
            for suffix in ("-wal", "-shm", "-journal"):  # those of the old records would be applied to the new ones
                self.records.with_name(f"{self.records.name}{suffix}").unlink(missing_ok=True)
        for entry in entries:
            target = self.data / entry.name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(entry, target)
        shutil.rmtree(self.data / "index", ignore_errors=True)  # it belongs to other records; it is built again
        sync_folder(self.data)
        self.restored.rmdir()

    def read_holder(self) -> ProcessInfo | None:
        """Return the notes of the process that uses or last used the directory, None if they are unreadable."""
        try:
            return ProcessInfo(**json.loads(self._lock.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write_holder(self, info: ProcessInfo) -> None:
        """Write the notes of this process, which has the lock."""
        text = json.dumps({key: value for key, value in asdict(info).items() if value}).encode()
        os.pwrite(self._handle, text, 0)
        os.ftruncate(self._handle, len(text))

    def read_schema(self) -> int | None:
        """Return the noted version of the records, None if none was noted. Raise StartupError if it is unreadable."""
        try:
            return int(self.schema.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise StartupError(f"{self.schema} cannot be read") from None

    def write_schema(self, version: int) -> None:
        """Note the version of the records."""
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
        """Return the master key; make it at the first call, atomically.

        Never make another key beside records that need theirs.
        """
        if self.key.exists():
            return
        if self.records.exists():
            raise StartupError(
                f"the key {self.key} is missing beside {self.records.name}: restore it from a backup, because "
                "no other key can read the secrets in the records"
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
MIN_FREE_BYTES = ROOM_BYTES  # below it, the disk counts as full
OWN_FREE_BYTES = RESERVE_BYTES // 2  # of a released reserve, for the records alone
REFILL_FREE_BYTES = 2 * RESERVE_BYTES  # at which the reserve is made again


class DiskReserve:
    """The reserve on the disk of the data directory. Its methods block for microseconds, except `update`."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._path = data / RESERVE_NAME
        self._device: int | None = None

    def update(self) -> None:
        """Release the reserve if the disk is full, and make it again when there is room. One process calls this."""
        with suppress(OSError):
            free, size = self._find_free(), self._find_size()
            if size and free < MIN_FREE_BYTES:
                os.truncate(self._path, 0)
                log_warning("data disk is full: only records are written to it", bytes=free)
            elif not size and free >= REFILL_FREE_BYTES:
                self._fill()
                if size == 0:
                    log_event("data disk has room again", bytes=free)

    def is_on_disk(self, device: int) -> bool:
        """True if a device is that of the data disk."""
        if self._device is None:
            try:
                self._device = os.stat(self._data).st_dev
            except OSError:  # no file was stored there yet
                return False
        return device == self._device

    def is_full(self) -> bool:
        """True if files of users cannot be written to the data disk."""
        return self._find_size() == 0 or self._find_free() < MIN_FREE_BYTES

    def is_full_for_service(self) -> bool:
        """True if internal files of the service cannot be written to the data disk either."""
        return self._find_free() < (OWN_FREE_BYTES if self._find_size() == 0 else MIN_FREE_BYTES)

    def _find_free(self) -> int:
        disk = os.statvfs(self._data)
        return disk.f_bavail * disk.f_frsize

    def _find_size(self) -> int | None:
        """Return the length of the file, None if it does not exist."""
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


FULL_VACUUM = 1  # the value of `PRAGMA auto_vacuum`: a change that frees pages shortens the file


def prepare_records(path: Path) -> None:
    """Make the file, or change it, so that it shrinks when records are removed. No engine may run on it.

    Raise StartupError.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            if database.execute("PRAGMA auto_vacuum").fetchone() != (FULL_VACUUM,):
                database.execute(f"PRAGMA auto_vacuum = {FULL_VACUUM}")
                database.execute("VACUUM")
    except sqlite3.OperationalError as error:  # not required to run: the next start tries again
        check_space(path.parent)
        log_warning("auto_vacuum could not be set; the file of the records does not shrink", reason=str(error))
    except sqlite3.DatabaseError as error:
        raise StartupError(f"{path} cannot be read: {error}") from None


def copy_records(source: Path, target: Path, *, is_running: bool) -> None:
    """Copy all records as of one moment into a new file that only its owner can read, and write it to the disk.

    `is_running`: an engine works on the source meanwhile. Raise StartupError if the source is damaged.
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
